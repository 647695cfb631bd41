//! The driver on a real device: memory there and back, kernels in order, what is dropped too early,
//! many batches.

mod doubles;
mod first;

use doubles::{doubles, slice};
use elinvar_core::ErrorKind;
use elinvar_driver::vulkan::{Graph, validation_messages};
use elinvar_driver::{Call, CallGraph, Driver, Interp, Vulkan};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Constant, Elem, Scalar};
use first::first;

#[test]
fn work_is_done_in_order() {
    doubles(&Interp::open(0).unwrap());
    if let Some(d) = first::<Vulkan>() {
        doubles(&d);
        println!("{:?}\n{:?}", d.info(), d.arithmetic());
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    assert_eq!(Interp::open(1).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let Some(d) = first::<Vulkan>() else { return };
    assert_eq!(Vulkan::open(99).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let too_large = d.allocate(d.info().largest + 1).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::OutOfMemory, "{too_large}");
    let k = Builder::new("wide", [2048, 1, 1]);
    k.store(k.buffer("y", Elem::U32, Access::Write), k.u32(0), k.u32(0));
    if d.info().invocations < 2048 {
        let e = d.compile(&k.finish()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("2048 invocations"), "{e}");
    }
}

/// Where kernels are watched (`ELINVAR_VULKAN_VALIDATION=gpu`), a store behind the end of memory is
/// told of.
#[test]
fn a_store_out_of_bounds_is_seen() {
    if std::env::var_os("ELINVAR_VULKAN_VALIDATION").is_none_or(|v| v != "gpu") {
        println!("skipped: kernels are not watched");
        return;
    }
    let Some(d) = first::<Vulkan>() else { return };
    let k = Builder::new("beyond", [1, 1, 1]);
    k.store(k.buffer("y", Elem::U32, Access::Write), k.u32(4000), k.u32(1));
    let module = d.compile(&k.finish()).unwrap();
    let memory = d.allocate(64).unwrap();
    let before = validation_messages().len();
    d.launch(&module, &[slice::<Vulkan>(&memory, 0, 64)], &Launch { groups: [1; 3], params: vec![] }, None)
        .unwrap();
    d.wait().unwrap();
    assert!(validation_messages().len() > before);
}

/// Calls that are kept are one submission a replay and no command, also with several replays under
/// way, in order with what is given before and behind them, and dropped before they are done.
#[test]
fn kept_calls_are_submitted_at_once() {
    const LEN: u64 = 256;
    const REPLAYS: u32 = 40;
    let Some(d) = first::<Vulkan>() else { return };
    // y[i] = x[i] * 3 + p + numbers[0]
    let k = Builder::new("steps", [64, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::Write));
    let numbers = k.buffer("numbers", Elem::U32, Access::Read);
    let (p, i) = (k.param("p", Scalar::U32), k.global_id(0));
    k.store(y, i, k.load(x, i, 1) * 3 + p + k.load(numbers, k.u32(0), 1));
    let module = d.compile(&k.finish()).unwrap();
    let memory = d.allocate(3 * 4096).unwrap();
    let [a, b, c] = [0, 4096, 8192].map(|at| slice::<Vulkan>(&memory, at, LEN * 4));
    let bytes = |v: &[u32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let launches = [1u32, 20].map(|p| Launch { groups: [4, 1, 1], params: vec![Constant::from(p)] });
    let args = [7u32, 50].map(|n| bytes(&[n]));
    let start = |i: usize, from, to| Call::Launch::<Vulkan> {
        module: &module,
        buffers: vec![from, to],
        launch: &launches[i],
        args: Some(&args[i]),
    };
    let calls = [start(0, a, b), start(1, b, c), Call::Copy { from: c, to: a }];
    let mut want: Vec<u32> = (0..LEN as u32).collect();
    d.write(a, &bytes(&want)).unwrap();
    let graph = Graph::capture(&d, &calls).unwrap().expect("this driver keeps calls");
    d.wait().unwrap();
    let replay = |want: &mut Vec<u32>| {
        graph.replay(&d).unwrap();
        want.iter_mut().for_each(|v| *v = v.wrapping_mul(9).wrapping_add(3 * 8 + 70));
    };
    let before = d.host_calls();
    (0..REPLAYS).for_each(|_| replay(&mut want));
    let after = d.host_calls();
    assert_eq!(after.submissions - before.submissions, u64::from(REPLAYS));
    assert_eq!(after.commands, before.commands);
    // Work before and behind each, which does not go in a submission of its own.
    for _ in 0..REPLAYS {
        d.launch(&module, &[a, b], &launches[0], Some(&args[0])).unwrap();
        d.copy(b, a).unwrap();
        want.iter_mut().for_each(|v| *v = v.wrapping_mul(3).wrapping_add(8));
        replay(&mut want);
    }
    assert_eq!(d.host_calls().submissions - after.submissions, u64::from(REPLAYS));
    drop(graph);
    let mut got = vec![0; LEN as usize * 4];
    d.read(a, &mut got).unwrap();
    assert!(got == bytes(&want));
    assert_eq!(validation_messages(), Vec::<String>::new());
}
