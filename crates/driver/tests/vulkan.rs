//! The driver on a real device: memory there and back, kernels in order, what is dropped too early,
//! many batches.

mod doubles;

use doubles::{doubles, slice};
use elinvar_core::ErrorKind;
use elinvar_driver::vulkan::validation_messages;
use elinvar_driver::{Driver, Interp, Vulkan};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Elem};

/// The first Vulkan device, or none with a line on why.
fn device() -> Option<Vulkan> {
    match Vulkan::open(0) {
        Ok(d) => Some(d),
        Err(e) if e.kind() == ErrorKind::DriverMissing => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn work_is_done_in_order() {
    doubles(&Interp::open(0).unwrap());
    if let Some(d) = device() {
        doubles(&d);
        println!("{:?}\n{:?}", d.info(), d.arithmetic());
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    assert_eq!(Interp::open(1).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let Some(d) = device() else { return };
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
    let Some(d) = device() else { return };
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
