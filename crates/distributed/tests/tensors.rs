//! Tensors of several devices: the bits of the balanced tree, and calls that do not fit.

use elinvar_core::{DType, ErrorKind, Result};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_distributed::Group;
use elinvar_ops::Backend;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Tensor};
use std::thread;

/// What every worker returns, by rank: even ones on the reference, odd ones on the processor.
fn on<T: Send>(workers: usize, work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    thread::scope(|s| {
        let work = &work;
        let all: Vec<_> = Group::threads(workers).into_iter().map(|g| s.spawn(move || work(g))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn numbers<B: Backend>(rank: usize, dtype: DType, device: &B::Device) -> Tensor<B> {
    let x: Tensor<Reference> =
        Generator::new(rank as u64).normal(0.0, 100.0, [6, 5], DType::F32, &ReferenceDevice);
    let x = Tensor::<B>::from_host(x.to_host().unwrap(), device).unwrap();
    Tensor::from_array(x.array().cast(dtype).unwrap())
}

fn bytes<B: Backend>(x: &Tensor<B>) -> (Vec<usize>, Vec<u8>) {
    (x.dims().to_vec(), x.to_host().unwrap().data().to_le_bytes())
}

type Told = [(Vec<usize>, Vec<u8>); 4];

fn all_calls<B: Backend>(g: &Group, dtype: DType, device: &B::Device) -> Told {
    let x = numbers::<B>(g.rank(), dtype, device);
    let sum = g.all_reduce(&x).unwrap();
    assert_eq!((sum.dtype(), sum.dims()), (dtype, x.dims()));
    let parts = g.reduce_scatter(&x).unwrap();
    let all = g.all_gather(&x).unwrap();
    let last = g.broadcast(&x, g.size() - 1).unwrap();
    [&sum, &parts, &all, &last].map(bytes)
}

#[test]
fn tensors_of_any_device_and_dtype() {
    let d = ReferenceDevice;
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32] {
        for workers in [1, 2, 3, 4] {
            let got = on(workers, |g| match g.rank() % 2 {
                0 => all_calls::<Reference>(&g, dtype, &d),
                _ => all_calls::<Cpu>(&g, dtype, &CpuDevice::shared().unwrap()),
            });
            let x = |rank| numbers::<Reference>(rank, dtype, &d);
            let wide = |x: Tensor<Reference>| Tensor::from_array(x.array().cast(dtype.compute()).unwrap());
            let w = |rank| wide(x(rank));
            let sum = match workers {
                1 => w(0),
                2 => w(0) + w(1),
                3 => (w(0) + w(1)) + w(2),
                _ => (w(0) + w(1)) + (w(2) + w(3)),
            };
            let sum: Tensor<Reference> = Tensor::from_array(sum.array().cast(dtype).unwrap());
            let gathered: Vec<u8> = (0..workers).flat_map(|rank| bytes(&x(rank)).1).collect();
            for (rank, told) in got.iter().enumerate() {
                let rows = 6 * rank / workers..6 * (rank + 1) / workers;
                let row = 5 * dtype.size();
                assert_eq!(told[0], bytes(&sum), "{dtype}, {workers} workers");
                assert_eq!(told[1].0, [rows.len(), 5]);
                assert_eq!(told[1].1, bytes(&sum).1[rows.start * row..rows.end * row]);
                assert_eq!(told[2], (vec![6 * workers, 5], gathered.clone()));
                assert_eq!(told[3], bytes(&x(workers - 1)));
            }
        }
    }
}

#[test]
fn bools_and_single_numbers_are_gathered() {
    on(3, |g| {
        let x = Tensor::<Reference>::from([g.rank() == 1]);
        assert_eq!(g.all_gather(&x).unwrap().to_vec::<bool>().unwrap(), [false, true, false]);
        let one = Tensor::<Reference>::from([g.rank() as f32]).sum();
        assert_eq!(g.all_gather(&one).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
        let bytes = if g.rank() == 2 { b"abc".to_vec() } else { vec![] };
        assert_eq!(g.broadcast_bytes(bytes, 2).unwrap(), b"abc");
    });
}

#[test]
fn tensors_that_do_not_fit_are_told() {
    let rows: [(&str, fn(&Group) -> Result<Tensor<Reference>>); 3] = [
        ("with a tensor of another shape", |g| {
            let d = ReferenceDevice;
            let shape: &[usize] = if g.rank() == 0 { &[2, 3] } else { &[3, 2] };
            g.all_reduce(&Tensor::ones(shape, DType::F32, &d))
        }),
        ("must make the same calls", |g| {
            let dtype = if g.rank() == 0 { DType::F32 } else { DType::F64 };
            g.all_gather(&Tensor::ones([4], dtype, &ReferenceDevice))
        }),
        ("must make the same calls", |g| {
            let x = Tensor::ones([4], DType::F32, &ReferenceDevice);
            if g.rank() == 0 { g.all_reduce(&x) } else { g.broadcast(&x, 0) }
        }),
    ];
    for (sentence, call) in rows {
        let told = on(2, |g| call(&g).err().map(|e| e.message().to_owned()));
        assert!(told.iter().flatten().any(|e| e.contains(sentence)), "{told:?}");
        assert!(told.iter().all(Option::is_some), "{told:?}");
    }
    let g = Group::alone();
    let x = Tensor::<Reference>::ones([2], DType::Bool, &ReferenceDevice);
    assert_eq!(g.all_reduce(&x).unwrap_err().kind(), ErrorKind::DTypeMismatch);
    let one = Tensor::<Reference>::ones([0; 0], DType::F32, &ReferenceDevice);
    assert_eq!(g.reduce_scatter(&one).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert!(g.broadcast(&one, 3).unwrap_err().message().contains("broadcast of worker 3"));
}
