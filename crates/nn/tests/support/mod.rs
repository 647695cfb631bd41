//! What tests of gradient shards have in common: a device, some digits, and workers.

use elinvar_core::{HostTensor, Shape};
use elinvar_cpu::CpuDevice;
use elinvar_distributed::Group;
use elinvar_nn::data::{Pairs, digits};
use elinvar_nn::models::digit_pairs;
use std::sync::Arc;
use std::thread;

pub fn cpu() -> CpuDevice {
    CpuDevice::shared().unwrap()
}

/// The first digits.
pub fn pairs(n: usize) -> Arc<Pairs> {
    let all = digit_pairs(&digits().unwrap()).unwrap();
    let first = |x: &HostTensor, shape: &[usize]| {
        let bytes = x.data().to_le_bytes();
        let size = bytes.len() / x.shape().dims()[0];
        let data = elinvar_core::HostData::from_le_bytes(x.dtype(), &bytes[..n * size]).unwrap();
        HostTensor::new(Shape::new(shape).unwrap(), data).unwrap()
    };
    Arc::new(Pairs::new(first(all.x(), &[n, 1, 8, 8]), first(all.y(), &[n])).unwrap())
}

/// What every worker returns, by rank.
pub fn on<T: Send>(workers: usize, work: impl Fn(&Group) -> T + Sync) -> Vec<T> {
    thread::scope(|s| {
        let work = &work;
        let all: Vec<_> = Group::threads(workers).into_iter().map(|g| s.spawn(move || work(&g))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}
