//! What a worker does.

use elinvar_core::{DType, Error, Result};
use elinvar_distributed::Group;
use elinvar_io::weights_hash;
use elinvar_nn::data::{Loader, digits};
use elinvar_nn::models::{DigitsMlp, digit_pairs};
use elinvar_nn::optim::AdamW;
use elinvar_nn::train::{Callback, Classification, Step, Trainer};
use elinvar_nn::{Backend, Generator, Module, Tensor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a role of this name says at its end.
pub fn works<B: Backend>(role: &str, g: &Group, d: &B::Device) -> Result<String> {
    match role {
        "train" => train::<B>(g, d, false),
        "zero" => train::<B>(g, d, true),
        "sum" => calls::<B>(g, d),
        "dtype" => {
            let dtype = if g.rank() == 1 { DType::F64 } else { DType::F32 };
            g.all_reduce(&Tensor::<B>::zeros([3], dtype, d)).map(|_| String::new())
        }
        "shape" => {
            let shape = if g.rank() == 1 { [2, 3] } else { [3, 2] };
            g.all_reduce(&Tensor::<B>::zeros(shape, DType::F32, d)).map(|_| String::new())
        }
        "order" => {
            let x = Tensor::<B>::zeros([3], DType::F32, d);
            g.barrier()?;
            if g.rank() == 1 {
                g.broadcast(&x, 0)?
            } else {
                g.all_reduce(&x)?
            };
            Ok(String::new())
        }
        "wait" => {
            let x = Tensor::<B>::ones([20_000], DType::F32, d);
            println!("READY");
            // Until one of them is gone.
            loop {
                g.all_reduce(&x)?;
            }
        }
        role => Err(Error::argument(format!("{role}?"))),
    }
}

/// Ends a run after a step.
struct StopAt(u64);

impl<B: Backend> Callback<B> for StopAt {
    fn step(&mut self, step: &Step<'_, B>) -> Result<ControlFlow<()>> {
        Ok(if step.step == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The hash of the weights after a few steps, and how messages went.
fn train<B: Backend>(g: &Group, d: &B::Device, zero1: bool) -> Result<String> {
    let (train, _) = digits()?.split(0, 0.05)?;
    let loader = Loader::new(Arc::new(digit_pairs(&train)?), 16)?.shuffle(0).drop_last(true);
    let net = DigitsMlp::<B>::new(&mut Generator::new(0), d);
    let mut adam = AdamW::new(3e-3);
    let mut trainer = Trainer::new(&net, &mut adam, &loader, Classification::new())
        .epochs(1)
        .shards(4)
        .bucket_bytes(4096)
        .clip_grad_norm(1.0)
        .callback(StopAt(3))
        .group(g);
    if zero1 {
        trainer = trainer.zero1();
    }
    trainer.run(d)?;
    let hash = weights_hash(&net.state_dict()?);
    Ok(format!("{hash} {}", way(g)))
}

fn way(g: &Group) -> &'static str {
    match g.transport().split_once("; ").map(|(_, way)| way) {
        Some("NCCL 2.23.4 between devices") => "by NCCL",
        Some("MPI between devices") => "by MPI",
        Some(_) => "by something else",
        None => "through the host",
    }
}

/// The tree of all workers' terms, on the host.
fn tree(terms: &[f32]) -> f32 {
    match terms {
        [one] => *one,
        all => {
            let half = all.len().next_power_of_two() / 2;
            tree(&all[..half]) + tree(&all[half..])
        }
    }
}

fn term(worker: usize, i: usize) -> f32 {
    1.0 / (1.0 + (worker * 7919 + i) as f32)
}

/// All calls with tensors, of vectors that go in one round and in two.
fn calls<B: Backend>(g: &Group, d: &B::Device) -> Result<String> {
    let all = 0..g.size();
    for n in [3usize, 20_000] {
        let own: Vec<f32> = (0..n).map(|i| term(g.rank(), i)).collect();
        let want: Vec<f32> =
            (0..n).map(|i| tree(&all.clone().map(|w| term(w, i)).collect::<Vec<_>>())).collect();
        let x = Tensor::<B>::from_vec(own, &[n], d);
        assert_eq!(g.all_reduce(&x)?.to_vec::<f32>()?, want);
        // A view whose elements are apart.
        let pairs = Tensor::<B>::from_vec((0..2 * n).map(|i| i as f32).collect(), &[n, 2], d);
        let sum = g.all_reduce(&pairs.transpose(0, 1))?.to_vec::<f32>()?;
        let want_pairs: Vec<f32> = (0..2 * n).map(|i| ((i % n * 2 + i / n) * g.size()) as f32).collect();
        assert_eq!(sum, want_pairs);
        let mine = g.reduce_scatter(&x)?.to_vec::<f32>()?;
        assert_eq!(mine, want[g.part(n, g.rank())]);
        let gathered = g.all_gather(&x)?.to_vec::<f32>()?;
        let each: Vec<f32> = all.clone().flat_map(|w| (0..n).map(move |i| term(w, i))).collect();
        assert_eq!(gathered, each);
        for root in all.clone() {
            let theirs: Vec<f32> = (0..n).map(|i| term(root, i)).collect();
            assert_eq!(g.broadcast(&x, root)?.to_vec::<f32>()?, theirs);
        }
        let count = |dtype| Tensor::<B>::full([n], g.rank() as f64 + 1.0, dtype, d);
        let total = (g.size() * (g.size() + 1) / 2) as f64;
        for dtype in [DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32] {
            let y = g.all_reduce(&count(dtype))?;
            assert_eq!(y.dtype(), dtype);
            assert_eq!(y.to_dtype(DType::F64).to_vec::<f64>()?, vec![total; n], "{dtype}");
        }
        let bytes = g.all_gather(&count(DType::U8))?.to_vec::<u8>()?;
        assert_eq!(bytes, all.clone().flat_map(|w| vec![w as u8 + 1; n]).collect::<Vec<_>>());
    }
    let nothing = g.all_reduce(&Tensor::<B>::zeros([0], DType::F32, d))?;
    assert_eq!(nothing.numel(), 0);
    Ok(way(g).into())
}
