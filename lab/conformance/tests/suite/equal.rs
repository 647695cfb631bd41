//! The harness that compares backends: it must accept an echo of the reference, and detect one
//! wrong bit.

use elinvar_conformance::equal::draw::WORKS;
use elinvar_conformance::equal::{Plan, equal, named};
use elinvar_conformance::twist::{Twist, Twisted, TwistedDevice, Work};
use elinvar_reference::Reference;

#[test]
fn an_echo_of_the_reference_is_equal_to_it() {
    let plan = Plan { rounds: 0..40, ..Plan::default() };
    let differences = equal::<Twisted<Reference>>(&TwistedDevice::new(Twist::echo()), &plan);
    let shown: Vec<&str> = differences.iter().map(|d| d.what.as_str()).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn one_wrong_bit_is_seen_in_every_kind_of_work() {
    for work in WORKS {
        let plan = Plan { rounds: 0..20, largest: 300, works: vec![work], ..Plan::default() };
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
        let plan = Plan { rounds: 0..10, largest: 300, works: vec![work], ..Plan::default() };
        let device = TwistedDevice::new(Twist::without(work));
        assert!(!equal::<Twisted<Reference>>(&device, &plan).is_empty(), "{work:?}");
    }
}

/// Of ops that are compositions, too: a wrong bit in a kind of work that they stand on.
#[test]
fn calls_by_name_are_equal_and_a_wrong_bit_is_seen() {
    let echo = TwistedDevice::new(Twist::echo());
    for op in named::ops() {
        let differences = named::equal::<Twisted<Reference>>(&echo, op, 1, 12);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
    for (op, work) in
        [("solve", Work::Contract), ("lu_solve", Work::Gather), ("eigh", Work::Map), ("fft", Work::Map)]
    {
        let device = TwistedDevice::new(Twist::wrong_bit(work));
        let seen = named::equal::<Twisted<Reference>>(&device, op, 1, 20);
        assert!(seen.len() >= 4, "{op}: {} of 20", seen.len());
    }
}
