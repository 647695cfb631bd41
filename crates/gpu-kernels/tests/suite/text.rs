//! The text form of the library's kernels.

use elinvar_core::{DType, Layout, Shape};
use elinvar_gpu_kernels::elementwise::map;
use elinvar_gpu_kernels::formula::FloatFormula;
use elinvar_kernel::text::print;
use elinvar_kernel::{Kernel, pass};
use elinvar_ops::catalogue::add::Add;
use elinvar_ops::map::Compiled;

/// Golden texts: a change of how kernels are built or printed shows here. To write them anew, set `ELINVAR_BLESS`.
fn golden(name: &str, k: &Kernel) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = print(k);
    if std::env::var_os("ELINVAR_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == want, "{name} is now\n{text}");
}

#[test]
fn a_map_in_text() {
    let l = Layout::contiguous(Shape::new(&[6, 7]).unwrap());
    let t = Layout::contiguous(Shape::new(&[7, 6]).unwrap()).transpose(0, 1);
    let add = FloatFormula(Box::new(Compiled::<_, 2>(Add)));
    for (name, l) in [("map_add_dense", &l), ("map_add_strided", &t)] {
        let operands = [(l, DType::F16), (&l.clone(), DType::F16)];
        let mut k = map::map(&add, DType::F16, &operands).unwrap().kernel();
        pass::optimise(&mut k);
        golden(name, &k);
    }
}
