//! The harness that compares backends: it must accept an echo of the reference, and detect one
//! wrong bit.

use elinvar_conformance::equal::draw::WORKS;
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::twist::{Twist, Twisted, TwistedDevice};
use elinvar_reference::Reference;

#[test]
fn an_echo_of_the_reference_is_equal_to_it() {
    let plan = Plan { rounds: 40, ..Plan::default() };
    let differences = equal::<Twisted<Reference>>(&TwistedDevice::new(Twist::echo()), &plan);
    let shown: Vec<&str> = differences.iter().map(|d| d.what.as_str()).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn one_wrong_bit_is_seen_in_every_kind_of_work() {
    for work in WORKS {
        let plan = Plan { rounds: 20, largest: 300, works: vec![work], ..Plan::default() };
        let device = TwistedDevice::new(Twist::wrong_bit(work));
        let seen = equal::<Twisted<Reference>>(&device, &plan);
        // Not in every round: some results are empty, NaN with another payload, or an error on both
        // sides.
        assert!(seen.len() >= 8, "{work:?}: {} of 20", seen.len());
        assert!(seen.iter().all(|d| d.work == work && d.what.contains(&format!("{work:?}"))));
    }
}

#[test]
fn work_that_was_left_out_is_seen_in_every_kind_of_work() {
    for work in WORKS {
        let plan = Plan { rounds: 10, largest: 300, works: vec![work], ..Plan::default() };
        let device = TwistedDevice::new(Twist::without(work));
        assert!(!equal::<Twisted<Reference>>(&device, &plan).is_empty(), "{work:?}");
    }
}
