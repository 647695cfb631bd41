//! Work in order, for every driver.

use elinvar_core::ErrorKind;
use elinvar_driver::{Driver, Slice};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Constant, Elem, Scalar};
use std::time::Duration;

pub fn slice<D: Driver>(memory: &D::Memory, offset: u64, len: u64) -> Slice<'_, D> {
    Slice { memory, offset, len }
}

/// y[i] = x[i] * 2 + p, 300 times in a row, half of them in each direction.
pub fn doubles<D: Driver>(d: &D) {
    let k = Builder::new("twice", [64, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::Write));
    let (p, n) = (k.param("p", Scalar::U32), k.param("n", Scalar::I64));
    let i = k.global_id(0);
    k.if_(i.to(Scalar::I64).lt(n), || k.store(y, i, k.load(x, i, 1) * 2 + p));
    let module = d.compile(&k.finish()).unwrap();
    let bytes = 1000 * 4;
    let memory = d.allocate(2 * 4096).unwrap();
    let (a, b) = (slice::<D>(&memory, 0, bytes), slice::<D>(&memory, 4096, bytes));
    let mut want: Vec<u32> = (0..1000).collect();
    d.write(a, &want.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let before = d.mark();
    for turn in 0..300u32 {
        let params = vec![Constant::from(turn), Constant::int(Scalar::I64, 1000)];
        let launch = Launch { groups: [16, 1, 1], params };
        let buffers = if turn % 2 == 0 { [a, b] } else { [b, a] };
        d.launch(&module, &buffers, &launch, None).unwrap();
        want.iter_mut().for_each(|v| *v = v.wrapping_mul(2).wrapping_add(turn));
    }
    let after = d.mark();
    let other = d.allocate(bytes).unwrap();
    d.copy(a, slice::<D>(&other, 0, bytes)).unwrap();
    drop(memory);
    let mut got = vec![0; bytes as usize];
    d.read(slice::<D>(&other, 0, bytes), &mut got).unwrap();
    let got: Vec<u32> = got.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(got, want);
    // 300 launches take some time, and less than the test may.
    match (before, after) {
        (Ok(before), Ok(after)) => {
            let time = d.between(&before, &after).unwrap();
            assert!(time > Duration::ZERO && time < Duration::from_secs(600), "{time:?}");
            assert!(d.between(&before, &before).unwrap() < time);
        }
        (Err(e), _) | (_, Err(e)) => assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}"),
    }
    d.wait().unwrap();
}
