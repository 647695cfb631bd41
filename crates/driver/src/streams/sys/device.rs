//! An opened device: its context and its streams.

use super::api::Api;
use super::functions::{Contexts, Handle};
use super::stream::{self, Stream};
use crate::Info;
use elinvar_core::Result;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device that has not been opened.
#[derive(Clone)]
pub struct Physical {
    pub raw: c_int,
    pub info: Info,
    /// Is memory taken and given back in a stream's order?
    pub pools: bool,
    /// Workgroups along each axis, at most.
    pub max_groups: [u32; 3],
    /// What compiled kernels of it are known by.
    pub cache_name: String,
}

/// What everything that was made by a device shares.
pub struct Shared {
    pub physical: Physical,
    pub api: &'static Api,
    /// Its context, where devices are named by such.
    context: Handle,
    /// The stream of the handle that opened the device.
    first: Stream,
    /// Those that came later.
    others: Mutex<Others>,
}

/// Streams beside the first.
#[derive(Default)]
pub(super) struct Others {
    pub streams: Vec<Handle>,
    /// In which memory is given back, behind all others. It is there as soon as there were several.
    pub frees: Option<Handle>,
}

// SAFETY: contexts and streams may be used by any thread that has made the context its own, which
// `enter` does.
unsafe impl Send for Shared {}
// SAFETY: as above; work is given to a stream under its queue's lock.
unsafe impl Sync for Shared {}

impl Shared {
    /// Opens a device.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn open(api: &'static Api, physical: Physical) -> Result<Arc<Shared>> {
        let name = &physical.info.name;
        let what = || format!("opening {name}");
        let mut context = std::ptr::null_mut();
        // SAFETY: the device was listed; the place for the result is valid. A context that is not
        // used is released again.
        unsafe {
            if let Contexts::Kept { retain, .. } = api.table.contexts {
                api.check(retain(&raw mut context, physical.raw), what)?;
            }
            let made = set(api, context, physical.raw, what).and_then(|()| stream::create(api, what));
            match made {
                Ok(first) => {
                    let (first, others) = (Stream::new(first), Mutex::default());
                    Ok(Arc::new(Shared { physical, api, context, first, others }))
                }
                Err(e) => {
                    if let Contexts::Kept { release, .. } = api.table.contexts {
                        release(physical.raw);
                    }
                    Err(e)
                }
            }
        }
    }
    /// Makes the device's context the calling thread's.
    pub(crate) fn enter(&self) -> Result<()> {
        set(self.api, self.context, self.physical.raw, || "entering the context".into())
    }
    /// Is memory taken and given back in the stream's order?
    pub(super) fn pools(&self) -> bool {
        self.physical.pools
    }
    /// The device's context.
    pub(super) fn context(&self) -> Handle {
        self.context
    }
    /// The stream of the handle that opened the device.
    pub fn first(&self) -> &Stream {
        &self.first
    }
    /// Those beside it.
    pub(super) fn others(&self) -> MutexGuard<'_, Others> {
        // A list of handles, each of which is there.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits for everything that was given to a stream.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait(&self, stream: Handle) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream belongs to this device.
        self.api.check(unsafe { (self.api.table.wait_stream)(stream) }, || "waiting".into())
    }
    /// Waits for everything that was given to any stream, and for memory to be given back.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait_for_all(&self) -> Result<()> {
        self.wait(self.first.raw)?;
        // A stream goes when no one holds the lock.
        let others = self.others();
        others.streams.iter().chain(&others.frees).try_for_each(|&stream| self.wait(stream))
    }
}

/// Makes a device the calling thread's.
fn set(api: &Api, context: Handle, number: c_int, what: impl Fn() -> String) -> Result<()> {
    // SAFETY: the context, if there is one, is retained; the device was listed.
    let set = unsafe {
        match api.table.contexts {
            Contexts::Kept { set, .. } => set(context),
            Contexts::Numbered(set) => set(number),
        }
    };
    api.check(set, what)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // An error was reported by a wait; here all that is left is to give things back.
        let _ = self.wait_for_all();
        self.first.destroy(self);
        if let Some(frees) = self.others().frees.take() {
            stream::destroy(self, frees);
        }
        // SAFETY: nothing else has this device: what it made holds it, also the other streams.
        unsafe {
            if let Contexts::Kept { release, .. } = self.api.table.contexts {
                release(self.physical.raw);
            }
        }
    }
}
