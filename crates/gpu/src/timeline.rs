//! A device's part in a profile: marks around what its queues are given, read at the end.
//!
//! Marks are places in a queue with the device's time. They are turned into times of the host at
//! the end: when the device is idle, a mark is now. A kernel cannot begin before it was given to
//! its queue, so if the two clocks disagree about that, all of the device's times are moved.
//!
//! A device without a clock waits before and after each call instead, and its times are the host's.
//!
//! How it can be wrong: the order of marks is the queue's, so the list is locked from the first
//! mark of a call to its second one.

use elinvar_core::profile::{self, Call, Cost, Event, Kind, Source, Track};
use elinvar_core::{ErrorKind, Result};
use elinvar_driver::Driver;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// What a device did since it was asked last, and its name.
pub(crate) struct Timeline<D: Driver> {
    pub(crate) name: Arc<str>,
    /// The kernels' names, by the addresses of their modules, which a device never drops.
    modules: Mutex<HashMap<usize, Arc<str>>>,
    spans: Mutex<Spans<D>>,
}

/// What is still to be read, and the log that it is for.
struct Spans<D: Driver> {
    log: u64,
    all: Vec<Span<D>>,
}

/// Something between two marks.
struct Span<D: Driver> {
    what: Timed,
    /// The number of its queue.
    queue: usize,
    call: Call,
    /// When the host gave it to the queue.
    given: u64,
    ends: Ends<D>,
}

enum Ends<D: Driver> {
    /// Marks before and after it.
    Device(D::Timestamp, D::Timestamp),
    /// Nanoseconds by the host's clock, of a device that has none.
    Host(u64),
}

/// What is given to the queue.
pub(crate) struct Timed {
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
    /// Bytes of the memory that it may read or write.
    pub(crate) bytes: u64,
}

impl Timed {
    /// A copy for which so many bytes are read or written.
    pub(crate) fn copy(name: &str, bytes: u64) -> Timed {
        Timed { kind: Kind::Copy, name: name.into(), bytes }
    }
}

impl<D: Driver> Timeline<D> {
    pub(crate) fn new(name: &str) -> Timeline<D> {
        let spans = Mutex::new(Spans { log: 0, all: Vec::new() });
        Timeline { name: name.into(), modules: Mutex::default(), spans }
    }
    /// A kernel was compiled.
    pub(crate) fn name_module(&self, module: &Arc<D::Module>, name: &str) {
        let mut all = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(Arc::as_ptr(module).addr(), name.into());
    }
    /// The name of a kernel.
    pub(crate) fn name_of(&self, module: &D::Module) -> Arc<str> {
        let all = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&std::ptr::from_ref(module).addr());
        known.expect("it was named when it was compiled").clone()
    }
    fn spans(&self) -> MutexGuard<'_, Spans<D>> {
        // A list of whole entries: a panic elsewhere does not spoil it.
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Gives something to a queue, which has a number, between two marks.
    ///
    /// # Errors
    /// Those of `give`; `DeviceLost`, `OutOfMemory`.
    #[cold]
    #[inline(never)]
    pub(crate) fn time<T>(
        &self,
        (driver, queue): (&D, usize),
        what: Timed,
        source: impl FnOnce() -> Weak<dyn Source>,
        give: &mut dyn FnMut(&D) -> Result<T>,
    ) -> Result<T> {
        let mut spans = self.spans();
        let (call, given) = (profile::current(), profile::now());
        let (result, ends) = match driver.mark() {
            Ok(from) => {
                let result = give(driver)?;
                (result, Ends::Device(from, driver.mark()?))
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                profile::add_note(format!(
                    "{}: times by the host's clock, which waits for each call ({e})",
                    self.name
                ));
                driver.wait()?;
                let from = profile::now();
                let result = give(driver)?;
                driver.wait()?;
                (result, Ends::Host(profile::now() - from))
            }
            Err(e) => return Err(e),
        };
        let log = profile::log_number();
        if spans.log != log {
            // What there is was never asked for, and its profile is gone.
            spans.all.clear();
            spans.log = log;
        }
        if spans.all.is_empty() {
            profile::add_source(source());
        }
        spans.all.push(Span { what, queue, call, given, ends });
        Ok(result)
    }
    /// Waits for the device, and gives what it did. Its queues are at the places of their numbers.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn read(&self, queues: &[&D], spans: Vec<Span<D>>) -> Result<Vec<Event>> {
        queues.iter().try_for_each(|driver| driver.wait())?;
        let now = profile::now();
        let times = times(queues, &spans)?;
        let given =
            |(span, time): (&Span<D>, &Option<(i64, i64)>)| time.map(|(from, _)| span.given as i64 - from);
        let earliest = spans.iter().zip(&times).filter_map(given).max();
        let offset = earliest.map_or(now as i64, |earliest| earliest.max(now as i64));
        let event = |(span, time): (Span<D>, Option<(i64, i64)>)| {
            let (start, duration) = match (time, span.ends) {
                (Some((from, to)), _) => ((from + offset) as u64, (to - from) as u64),
                (None, Ends::Host(duration)) => (span.given, duration),
                (None, Ends::Device(..)) => unreachable!("what has marks has times"),
            };
            Event {
                kind: span.what.kind,
                name: span.what.name.to_string().into(),
                call: span.call,
                track: Track::Queue(self.name.clone(), span.queue as u32),
                device: Some(self.name.clone()),
                given: span.given,
                start,
                duration,
                own: duration,
                cost: Cost { bytes: span.what.bytes, flops: 0 },
            }
        };
        Ok(spans.into_iter().zip(times).map(event).collect())
    }
    /// What the device did since it was asked last.
    pub(crate) fn events(&self, queues: &[&D]) -> Vec<Event> {
        let spans = std::mem::take(&mut self.spans().all);
        self.read(queues, spans).unwrap_or_else(|e| {
            profile::add_note(format!("{}: what it did is not known ({e})", self.name));
            Vec::new()
        })
    }
}

/// When each began and ended by the clock of the device, which is idle, in nanoseconds from now on:
/// none is above 0. `None` if the host's clock says it.
fn times<D: Driver>(queues: &[&D], spans: &[Span<D>]) -> Result<Vec<Option<(i64, i64)>>> {
    let mut clocks: Vec<Clock<'_, D>> = queues.iter().map(|_| Clock { last: None, at: 0 }).collect();
    let mut times = Vec::with_capacity(spans.len());
    for span in spans {
        let (driver, clock) = (queues[span.queue], &mut clocks[span.queue]);
        times.push(match &span.ends {
            Ends::Device(from, to) => {
                let from = clock.at(driver, from)?;
                Some((from, clock.at(driver, to)?))
            }
            Ends::Host(_) => None,
        });
    }
    // What is now by the clock of each queue. Their marks are one after the other: the time between
    // two has been asked for, and so waited for, before the next one is made.
    let (mut first, mut now) = (None, vec![0; queues.len()]);
    for ((driver, clock), now) in
        queues.iter().zip(&clocks).zip(&mut now).filter(|((_, c), _)| c.last.is_some())
    {
        let mark = driver.mark()?;
        let since = first.as_ref().map_or(Ok(Duration::ZERO), |first| driver.between(first, &mark))?;
        *now = clock.behind(driver, &mark)? - since.as_nanos() as i64;
        first.get_or_insert(mark);
    }
    let from_now = |(span, time): (&Span<D>, Option<(i64, i64)>)| {
        time.map(|(from, to)| (from - now[span.queue], to - now[span.queue]))
    };
    Ok(spans.iter().zip(times).map(from_now).collect())
}

/// A queue's time, from its first mark on. Clocks measure differences, which are exact only if
/// they are small: so each mark is measured from the one before.
struct Clock<'a, D: Driver> {
    last: Option<&'a D::Timestamp>,
    at: i64,
}

impl<'a, D: Driver> Clock<'a, D> {
    /// The time of a mark behind the last one.
    fn behind(&self, driver: &D, mark: &D::Timestamp) -> Result<i64> {
        let since = self.last.map_or(Ok(Duration::ZERO), |last| driver.between(last, mark))?;
        Ok(self.at + since.as_nanos() as i64)
    }
    /// The time of a mark, which is the last one from now on.
    fn at(&mut self, driver: &D, mark: &'a D::Timestamp) -> Result<i64> {
        self.at = self.behind(driver, mark)?;
        self.last = Some(mark);
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_driver::{Interp, Null};

    struct Silent;
    impl Source for Silent {
        fn events(&self) -> Vec<Event> {
            Vec::new()
        }
    }

    fn some<D: Driver>() -> Vec<Event> {
        let (driver, line) = (D::open(0).unwrap(), Timeline::<D>::new("x:0"));
        let source = || Weak::<Silent>::new() as Weak<dyn Source>;
        for name in ["a", "b"] {
            let what = Timed { kind: Kind::Kernel, name: name.into(), bytes: 8 };
            line.time((&driver, 0), what, source, &mut |_| Ok(())).unwrap();
        }
        line.events(&[&driver])
    }

    #[test]
    fn calls_follow_one_another_and_none_begins_before_it_was_given() {
        let before = profile::now();
        for events in [some::<Interp>(), some::<Null>()] {
            let after = profile::now();
            let [a, b] = &events[..] else { panic!("{events:?}") };
            assert_eq!((&*a.name, &*b.name, a.cost.bytes), ("a", "b", 8));
            assert!(before <= a.start && a.start + a.duration <= b.start, "{events:?}");
            assert!(b.start + b.duration <= after, "{events:?}");
        }
    }
}
