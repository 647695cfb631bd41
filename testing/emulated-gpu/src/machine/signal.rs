//! mbarriers: barriers in shared memory that count arrivals and bytes ("PTX ISA", 9.7.13.15), and
//! the TMA copies that complete on them.
//!
//! Bytes in flight arrive when a thread waits for the phase that they belong to, and not before.

use super::shared::{SharedMemory, Touch};
use super::{Fault, FaultKind};
use std::collections::BTreeMap;

/// Bytes in flight: destination, in pieces.
pub struct Flight {
    pub pieces: Vec<(u32, [u8; 16])>,
    pub thread: u16,
}

/// An mbarrier.
#[derive(Default)]
struct Signal {
    /// The initialising thread, and the barrier epoch of the workgroup.
    made: (u32, u16),
    /// Is it visible to the TMA unit (fenced)?
    fenced: bool,
    /// Arrivals per phase, and those pending in this one.
    count: u32,
    missing: u32,
    /// Pending bytes.
    bytes: i64,
    phase: u64,
    flights: Vec<Flight>,
}

/// All mbarriers of a workgroup, by address.
#[derive(Default)]
pub struct Signals {
    all: BTreeMap<u32, Signal>,
    /// Changes with every event that a waiting warp could wait for.
    pub events: u64,
}

/// Bytes of an mbarrier.
const SIZE: usize = 8;

fn wrong<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Illegal, what))
}

impl SharedMemory {
    pub fn init_signal(&mut self, at: u32, count: u32, thread: u16) -> Result<(), Fault> {
        self.touch(at, SIZE, thread, Touch::Write)?;
        if count == 0 {
            return wrong("a barrier in memory for 0 arrivals");
        }
        let made = (self.epoch(), thread);
        let signal = Signal { made, count, missing: count, ..Signal::default() };
        match self.signals.all.insert(at, signal) {
            None => Ok(()),
            Some(_) => wrong(format!("the barrier at byte {at} of shared memory is made a second time")),
        }
    }
    /// Makes initialised mbarriers visible to the TMA unit.
    pub fn fence_signals(&mut self) {
        self.signals.all.values_mut().for_each(|s| s.fenced = true);
    }
    fn signal(&mut self, at: u32, thread: u16) -> Result<&mut Signal, Fault> {
        self.touch(at, SIZE, thread, Touch::Atomic)?;
        self.signals.events += 1;
        let now = self.epoch();
        match self.signals.all.get_mut(&at) {
            Some(s) if s.made.0 == now && s.made.1 != thread => wrong(format!(
                "a race: thread {thread} uses the barrier at byte {at} of shared memory, which thread {} makes",
                s.made.1
            )),
            Some(s) => Ok(s),
            None => wrong(format!("there is no barrier at byte {at} of shared memory")),
        }
    }
    /// Arrives, and adds expected bytes (`arrive.expect_tx`).
    pub fn expect(&mut self, at: u32, bytes: u32, thread: u16) -> Result<(), Fault> {
        let s = self.signal(at, thread)?;
        if s.missing == 0 {
            return wrong("an arrival at a barrier whose phase is full");
        }
        s.missing -= 1;
        s.bytes += i64::from(bytes);
        s.advance();
        Ok(())
    }
    /// Issues a copy.
    pub fn send(&mut self, at: u32, flight: Flight) -> Result<(), Fault> {
        for &(to, _) in &flight.pieces {
            self.touch(to, 16, flight.thread, Touch::Begin)?;
        }
        let s = self.signal(at, flight.thread)?;
        if !s.fenced {
            return wrong(
                "the engine has not been told of the barrier: a fence is missing behind where it was made",
            );
        }
        s.flights.push(flight);
        Ok(())
    }
    /// Is a phase complete? Its copies in flight arrive now.
    pub fn is_over(&mut self, at: u32, parity: u32, thread: u16) -> Result<bool, Fault> {
        if parity > 1 {
            return wrong(format!("phase {parity} of a barrier"));
        }
        let before = self.signals.events;
        let s = self.signal(at, thread)?;
        if s.phase % 2 != u64::from(parity) {
            return Ok(true);
        }
        let flights = std::mem::take(&mut s.flights);
        let none = flights.is_empty();
        s.bytes -= flights.iter().map(|f| 16 * f.pieces.len() as i64).sum::<i64>();
        if s.bytes < 0 && s.missing == 0 {
            return wrong("more bytes arrive than a barrier was told of");
        }
        s.advance();
        let over = s.phase % 2 != u64::from(parity);
        for Flight { pieces, .. } in flights {
            for (to, bytes) in pieces {
                self.sent(to as usize, &bytes);
            }
        }
        if none && !over {
            // A query is no event.
            self.signals.events = before;
        }
        Ok(over)
    }
    /// Checks that nothing is in flight where a workgroup ends.
    pub fn no_flights(&self) -> Result<(), Fault> {
        if self.signals.all.values().all(|s| s.flights.is_empty()) {
            return Ok(());
        }
        wrong("a workgroup ends while boxes are on their way to its shared memory")
    }
}

impl Signal {
    fn advance(&mut self) {
        if self.missing == 0 && self.bytes == 0 {
            self.phase += 1;
            self.missing = self.count;
        }
    }
}
