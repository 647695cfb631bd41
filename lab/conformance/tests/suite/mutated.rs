//! Calls by name with wrong attributes, dtypes, shapes, strides and values: results of the
//! reference, or an error, and never a panic.

use elinvar_conformance::filter::Filter;
use elinvar_conformance::{mutated, sample};
use elinvar_devices::Device;

/// More of them, others, and on another device, with a line as
/// `ELINVAR_TEST_CALLS=50000 ELINVAR_TEST_SEED=7 cargo test -p elinvar-conformance no_call_panics`.
fn parameter(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn no_call_panics() {
    let mut cases = sample::cases(&Filter::default()).unwrap();
    cases.retain(mutated::is_call);
    let device = std::env::var("ELINVAR_TEST_DEVICE").unwrap_or("cpu".into());
    let [device, reference] = [&device, "reference"].map(|d| Device::parse(d).unwrap());
    device.set_memory_limit(Some(256 << 20)).unwrap();
    let (seed, calls) = (parameter("ELINVAR_TEST_SEED", 1), parameter("ELINVAR_TEST_CALLS", 2000));
    let (mut ran, mut wrong) = (0, Vec::new());
    for number in 0..calls {
        match mutated::check(&mutated::draw(&cases, seed, number), &device, &reference) {
            Ok(gave) => ran += u64::from(gave),
            Err(e) => wrong.push(format!("seed {seed}, number {number}: {e}")),
        }
    }
    device.set_memory_limit(None).unwrap();
    assert!(wrong.is_empty(), "{} of {calls}:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n\n"));
    assert!(ran > calls / 5, "{ran} of {calls} gave results");
}
