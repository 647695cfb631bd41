//! The queues of a device: which one a thread gives its work to, and what orders them.
//!
//! Within a queue, the order of the calls is the only order, and memory that is dropped can be used
//! again at once. Between two queues, events are the order: work that touches memory which another
//! queue has used since it was last waited for comes behind an event of that one. That is done
//! without a call of the program, so no program has a race between streams; one that waits for an
//! event itself (`Stream::wait`) waits for less.

use crate::device::OpenDevice;
use crate::uses::{Use, UseList, Uses};
use elinvar_core::Result;
use elinvar_driver::Driver;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// A queue of a device.
pub(crate) struct Queue<D: Driver> {
    number: usize,
    /// None: the device's first.
    driver: Option<D>,
    /// Pieces of work that it was given, counted when that is done.
    given: AtomicU64,
    /// Of each other queue, how many pieces of its work come before what this one is given from now
    /// on.
    waited: Mutex<Vec<u64>>,
}

impl<D: Driver> Queue<D> {
    fn new(number: usize, driver: Option<D>) -> Arc<Queue<D>> {
        Arc::new(Queue { number, driver, given: AtomicU64::new(0), waited: Mutex::default() })
    }
    /// Its number on the device, whose first queue is 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
    /// The device with this queue.
    pub(crate) fn driver<'a>(&'a self, device: &'a OpenDevice<D>) -> &'a D {
        self.driver.as_ref().unwrap_or(&device.driver)
    }
    fn waited(&self) -> MutexGuard<'_, Vec<u64>> {
        // Numbers that only ever grow.
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Work that is given to it from now on comes behind work of another queue.
    fn has_waited(&self, queue: usize, tickets: u64) {
        let mut waited = self.waited();
        if waited.len() <= queue {
            waited.resize(queue + 1, 0);
        }
        waited[queue] = waited[queue].max(tickets);
    }
    fn waits_for(&self, one: &Use) -> bool {
        one.queue != self.number && self.waited().get(one.queue).is_none_or(|&has| has < one.ticket)
    }
    /// The place behind all that it was given until now.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn record(&self, device: &OpenDevice<D>) -> Result<QueueEvent<D>> {
        // What was counted before was given before.
        let tickets = self.given.load(Acquire);
        Ok(QueueEvent { event: self.driver(device).record()?, queue: self.number, tickets })
    }
    /// What it is given from now on comes behind an event.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn after(&self, device: &OpenDevice<D>, event: &QueueEvent<D>) -> Result<()> {
        if event.queue != self.number {
            self.driver(device).after(&event.event)?;
            self.has_waited(event.queue, event.tickets);
        }
        Ok(())
    }
    /// Counts work that was just given.
    fn count(&self) -> Use {
        Use { queue: self.number, ticket: self.given.fetch_add(1, AcqRel) + 1 }
    }
}

impl<D: Driver> fmt::Debug for Queue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({} of {})", self.number, D::NAME)
    }
}

/// All queues of a device.
pub(crate) struct Queues<D: Driver> {
    first: Arc<Queue<D>>,
    /// Those that streams have or had; the one of number n is at n - 1. As long as there is none,
    /// uses of memory are not counted: the first of them waits for everything before it.
    others: RwLock<Vec<Arc<Queue<D>>>>,
}

impl<D: Driver> Default for Queues<D> {
    fn default() -> Self {
        Queues { first: Queue::new(0, None), others: RwLock::default() }
    }
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct QueueEvent<D: Driver> {
    pub(crate) event: D::Event,
    queue: usize,
    /// Work that comes before it.
    tickets: u64,
}

thread_local! {
    /// The queues whose scopes this thread is in, each with the address of its device.
    static SCOPES: RefCell<Vec<(usize, Option<Arc<dyn Any + Send + Sync>>)>> = const { RefCell::new(Vec::new()) };
}

/// Leaves a scope, also when a function panics.
struct LeaveOnDrop;

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        SCOPES.with_borrow_mut(|scopes| drop(scopes.pop()));
    }
}

/// Memory that work touches, and does it write it?
pub(crate) type Touch<'a> = (&'a Uses, bool);

/// The queue of a thread. While it is held, the device gets no first queue beside its own.
pub(crate) struct Current<'a, D: Driver> {
    device: &'a OpenDevice<D>,
    others: RwLockReadGuard<'a, Vec<Arc<Queue<D>>>>,
    queue: Arc<Queue<D>>,
}

impl<D: Driver> Current<'_, D> {
    /// The device with this queue.
    pub(crate) fn driver(&self) -> &D {
        self.queue.driver(self.device)
    }
    fn is_alone(&self) -> bool {
        self.others.is_empty()
    }
    fn of(&self, number: usize) -> &Queue<D> {
        number.checked_sub(1).map_or(&self.device.queues.first, |i| &self.others[i])
    }
    /// Can memory with these uses be used by this queue without waiting for another?
    pub(crate) fn is_free(&self, uses: &UseList) -> bool {
        self.is_alone() || !uses.before(true).any(|u| self.queue.waits_for(u))
    }
    /// The uses of memory that was just allocated in this queue's order.
    pub(crate) fn allocated(&self) -> UseList {
        if self.is_alone() { UseList::default() } else { UseList::written(self.queue.count()) }
    }
    /// What the queue is given from now on comes behind all that it has to.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn order<'t>(&self, touched: impl Iterator<Item = Touch<'t>>) -> Result<()> {
        for (uses, writes) in touched {
            let missing: Vec<Use> =
                uses.lock().before(writes).filter(|u| self.queue.waits_for(u)).copied().collect();
            for one in missing {
                // One of the others may have done it.
                if self.queue.waits_for(&one) {
                    let event = self.of(one.queue).record(self.device)?;
                    self.queue.after(self.device, &event)?;
                }
            }
        }
        Ok(())
    }
}

impl<D: Driver> OpenDevice<D> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
    /// The queue whose scope this thread is in; `None`: the first.
    pub(crate) fn scope(&self) -> Option<Arc<Queue<D>>> {
        SCOPES.with_borrow(|scopes| {
            let (_, queue) = scopes.iter().rev().find(|(device, _)| *device == self.address())?;
            queue.clone()?.downcast().ok()
        })
    }
    /// Runs `f` in the scope of a queue, or of the first.
    pub(crate) fn within<T>(&self, queue: Option<&Arc<Queue<D>>>, f: impl FnOnce() -> T) -> T {
        let queue = queue.map(|q| q.clone() as Arc<dyn Any + Send + Sync>);
        SCOPES.with_borrow_mut(|scopes| scopes.push((self.address(), queue)));
        let _leave = LeaveOnDrop;
        f()
    }
    /// The queue that this thread gives its work to. It is not to be asked for twice at a time.
    pub(crate) fn current(&self) -> Current<'_, D> {
        let queue = self.scope().unwrap_or_else(|| self.queues.first.clone());
        // Only ever added to.
        let others = self.queues.others.read().unwrap_or_else(PoisonError::into_inner);
        Current { device: self, others, queue }
    }
    /// Has `f` give work to this thread's queue, behind all other queues' work that it has to come
    /// behind.
    ///
    /// # Errors
    /// Those of `f`; `OutOfMemory`, `DeviceLost`.
    pub(crate) fn give<'t, T>(
        &self,
        touched: impl Iterator<Item = Touch<'t>> + Clone,
        f: impl FnOnce(&Queue<D>) -> Result<T>,
    ) -> Result<T> {
        let current = self.current();
        if current.is_alone() {
            return f(&current.queue);
        }
        current.order(touched.clone())?;
        let given = f(&current.queue);
        // Of what failed, a part may have been given.
        let this = current.queue.count();
        touched.for_each(|(uses, writes)| uses.lock().add(this, writes));
        given
    }
    /// Has `f` wait for this thread's queue, behind all other queues' work on memory that it reads.
    ///
    /// # Errors
    /// Those of `f`; `OutOfMemory`, `DeviceLost`.
    pub(crate) fn read<'t, T>(
        &self,
        touched: impl Iterator<Item = Touch<'t>>,
        f: impl FnOnce(&Queue<D>) -> Result<T>,
    ) -> Result<T> {
        let queue = {
            let current = self.current();
            if !current.is_alone() {
                current.order(touched)?;
            }
            current.queue
        };
        // Others may add queues meanwhile: when this is over, nothing of it is under way.
        f(&queue)
    }
    /// Waits for all queues.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub(crate) fn wait(&self) -> Result<()> {
        self.all_queues().iter().try_for_each(|q| q.driver(self).wait())
    }
    /// All queues, each at the place of its number.
    pub(crate) fn all_queues(&self) -> Vec<Arc<Queue<D>>> {
        let others = self.queues.others.read().unwrap_or_else(PoisonError::into_inner);
        [&self.queues.first].into_iter().chain(&*others).cloned().collect()
    }
    /// A queue of its own for a stream, behind all that the device was given until now, or one that
    /// no stream has any more; `None` if the device has one queue.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn add_queue(&self) -> Result<Option<Arc<Queue<D>>>> {
        // No work is given meanwhile whose uses are not counted.
        let mut others = self.queues.others.write().unwrap_or_else(PoisonError::into_inner);
        let queue = match others.iter().find(|q| Arc::strong_count(q) == 1) {
            Some(idle) => idle.clone(),
            None => {
                let Some(driver) = self.driver.queue()? else { return Ok(None) };
                Queue::new(others.len() + 1, Some(driver))
            }
        };
        for before in others.iter().chain([&self.queues.first]).filter(|q| q.number != queue.number) {
            queue.after(self, &before.record(self)?)?;
        }
        if others.len() < queue.number {
            others.push(queue.clone());
        }
        Ok(Some(queue))
    }
    /// A queue, or the first.
    pub(crate) fn queue<'a>(&'a self, queue: Option<&'a Arc<Queue<D>>>) -> &'a Queue<D> {
        queue.unwrap_or(&self.queues.first)
    }
}
