//! A backend from outside: here, one that counts what it is asked for and lets the reference do the
//! work.
//!
//! `Tensor<Counting>` has every method, operator and gradient without another line.
//!
//! ```sh
//! cargo run -p elinvar --example own_backend
//! ```

use elinvar::core::{DType, HostData};
use elinvar::ops::DeviceOf;
use elinvar::ops::backend::{Delegate, Kind, View};
use elinvar::{Reference, ReferenceDevice, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Tensor = elinvar::Tensor<Counting>;

#[derive(Clone, Copy, Debug, Default)]
struct Counting;

/// Clones share the counts.
#[derive(Clone, Debug, Default)]
struct Counter {
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl DeviceOf for Counter {
    type Backend = Counting;
}

impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counts, &other.counts)
    }
}

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("counting")
    }
}

impl Counter {
    fn count(&self, kind: &'static str) -> &'static ReferenceDevice {
        *self.counts.lock().unwrap().entry(kind).or_default() += 1;
        &ReferenceDevice
    }
}

/// Its memory is the reference's, and its results are taken as they are.
impl Delegate<Reference> for Counting {
    fn inner(buffer: &HostData) -> &HostData {
        buffer
    }
    fn inner_mut(buffer: &mut HostData) -> &mut HostData {
        buffer
    }
    fn results<const N: usize>(
        _: &Counter,
        _: Kind,
        y: [HostData; N],
        _: impl FnOnce() -> [(DType, usize); N],
    ) -> Result<[HostData; N]> {
        Ok(y)
    }
}

/// A call goes to the reference, and is counted.
macro_rules! on {
    ($d:ident { $name:ident $generics:tt $args:tt }) => {
        elinvar::ops::hand_over!(Reference, $d.count(stringify!($name)), $d { $name $generics $args })
    };
}
elinvar::ops::delegate_backend! {
    impl [] Memory for Counting, by on, except [] {
        type Device = Counter;
        type Buffer = HostData;
        const NAME: &'static str = "counting";
        fn receive(_: &Counter, _: &Counter, _: View<'_, Self>) -> Result<Option<HostData>> {
            // All of its devices are the host.
            Ok(None)
        }
    }
    impl [] Compute for Counting, by on, except [] {}
}
// Called again, it counts again.
elinvar::ops::without_capture! { impl [] Counting }
elinvar::ops::host_streams! { impl [] Counting }

/// A loss and its gradient.
fn run(d: &Counter) -> (Tensor, Tensor) {
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], d).requires_grad();
    let loss = x.matmul(&x.t()).tanh().mean();
    let g = loss.backward().take(&x).expect("the loss depends on x");
    (loss, g)
}

fn main() {
    let d = Counter::default();
    let (loss, g) = run(&d);
    println!("loss {loss}");
    println!("gradient\n{g}");
    for (kind, n) in d.counts.lock().unwrap().iter() {
        println!("{kind:>12} {n}");
    }
}

#[test]
fn it_counts_and_gives_what_the_reference_gives() {
    let d = Counter::default();
    let (loss, g) = run(&d);
    let x = elinvar::Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], &ReferenceDevice).requires_grad();
    let want = x.matmul(&x.t()).tanh().mean();
    assert_eq!(loss.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
    let of_want = want.backward().take(&x).unwrap();
    assert_eq!(g.to_vec::<f32>().unwrap(), of_want.to_vec::<f32>().unwrap());
    let counts = d.counts.lock().unwrap();
    // x x^T, and two products for its gradient.
    assert_eq!((counts.get("contract"), counts.get("sort")), (Some(&3), None), "{counts:?}");
}
