//! Call overhead: ops that compute next to nothing. These rows run with the backend chosen at
//! compile time, too.

use super::{both_ways, boxed, forward};
use crate::data::Data;
use crate::row::{Group, Row, Task};
use elinvar::{DType, DeviceOf, Tensor};

/// Ops of a chain.
const CHAIN: usize = 1000;

#[derive(Clone, Copy)]
enum Call {
    /// A tensor of two elements.
    Create,
    /// A sum of four elements, without a tape.
    Add,
    /// The same of a variable: recorded.
    AddGrad,
    /// A thousand recorded sums, one after the other.
    Chain,
    /// And its backward pass.
    ChainBack,
}

fn task<D: DeviceOf + Clone + 'static>(call: Call, data: &mut Data<D>) -> Task {
    let (x, y, v) = (data.floats(&[4]), data.floats(&[4]), data.variable(&[4]));
    let device = data.device.clone();
    let chain = {
        let (v, y) = (v.clone(), y.clone());
        move || (0..CHAIN).fold(v.clone(), |x, _| x + &y)
    };
    match call {
        Call::Create => boxed(forward(move || Tensor::new([1.0f32, 2.0], &device))),
        Call::Add => boxed(forward(move || &x + &y)),
        Call::AddGrad => boxed(forward(move || &v + &y)),
        Call::Chain => boxed(forward(chain)),
        Call::ChainBack => boxed(both_ways(chain, vec![v])),
    }
}

pub(super) fn rows() -> Vec<Row> {
    [
        (Call::Create, "create2", "2"),
        (Call::Add, "tiny_add", "4"),
        (Call::AddGrad, "tiny_add_grad", "4"),
        (Call::Chain, "chain1000_f", "4"),
        (Call::ChainBack, "chain1000_fb", "4"),
    ]
    .into_iter()
    .map(|(call, workload, shape)| {
        Row::new(Group::Overhead, workload, shape, DType::F32, move |data| task(call, data))
            .also_static(move |data| task(call, data))
            .recorded()
    })
    .collect()
}
