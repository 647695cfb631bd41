//! A program that can call every op of the catalogue by its name: what the formulas cost to build.
//!
//! `cargo build --release -p elinvar-cpu --example catalogue_by_name`

use elinvar_core::{DType, HostData, Shape};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_ops::args::Args;
use elinvar_ops::{Array, catalogue};

fn main() {
    let d = CpuDevice::shared().expect("a device");
    let op = std::env::args().nth(1).unwrap_or_else(|| "exp".into());
    let x =
        Array::<Cpu>::new(&d, HostData::F32(vec![0.5, 1.0]), Shape::new(&[2]).expect("small"), DType::F32);
    let y = catalogue::call(&Args { op, inputs: vec![("x".into(), x)], attrs: Default::default() });
    println!("{y:?}");
}
