//! The first device of a driver that a machine may lack.

use elinvar_core::ErrorKind;
use elinvar_driver::Driver;

/// The first device, or none with a line on why.
pub fn first<D: Driver>() -> Option<D> {
    match D::open(0) {
        Ok(d) => Some(d),
        Err(e) if e.kind() == ErrorKind::DriverMissing => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}
