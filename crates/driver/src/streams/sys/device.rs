//! An opened device: its context and its streams.

use super::api::Api;
use super::error::Status;
use super::functions::{Contexts, Handle};
use super::stream::{self, Stream};
use crate::{Info, Kind};
use elinvar_core::{Error, ErrorKind, Result};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device that has not been opened.
#[derive(Clone)]
pub struct Physical {
    pub raw: c_int,
    pub info: Info,
    /// Its instruction set, as the driver names it: `sm_90`, `gfx90a:sramecc+:xnack-`.
    pub isa: String,
    /// Is memory taken and given back in a stream's order?
    pub pools: bool,
    /// Workgroups along each axis, at most.
    pub max_groups: [u32; 3],
    /// What compiled kernels of it are known by.
    pub cache_name: String,
}

/// A device as the driver lists it.
pub struct Listed {
    pub raw: c_int,
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
}

/// Bytes of a device's name, at most.
const NAME_BYTES: usize = 256;

impl Api {
    /// Starts the driver. `absent` are the results by which it says that there is no device.
    ///
    /// # Errors
    /// `DriverMissing` if there is none; what the driver reports.
    pub fn start(&self, absent: &[Status]) -> Result<()> {
        // SAFETY: there are no flags.
        match unsafe { (self.table.init)(0) } {
            status if absent.contains(&status) => Err(self.no_device()),
            status => self.check(status, || "starting the driver".into()),
        }
    }
    fn no_device(&self) -> Error {
        let text = self.say(format_args!("the driver is there, and finds no {} in this machine", self.gpu));
        Error::new(ErrorKind::DriverMissing, text)
    }
    /// The devices of this machine, those with memory of their own first.
    ///
    /// # Errors
    /// `DriverMissing` if there is none; those of `look`; what the driver reports.
    pub fn devices(&self, look: impl Fn(c_int, Listed) -> Result<Physical>) -> Result<Vec<Physical>> {
        let mut count = 0;
        // SAFETY: the place for the result is valid.
        match unsafe { (self.table.device_count)(&raw mut count) } {
            // NO_DEVICE
            100 => count = 0,
            status => self.check(status, || "counting devices".into())?,
        }
        let mut all = (0..count).map(|i| look(i, self.listed(i)?)).collect::<Result<Vec<Physical>>>()?;
        if all.is_empty() {
            return Err(self.no_device());
        }
        // Stable: devices of one kind stay in the driver's order.
        all.sort_by_key(|p| p.info.kind);
        Ok(all)
    }
    fn listed(&self, ordinal: c_int) -> Result<Listed> {
        let (t, what) = (&self.table, || format!("looking at device {ordinal}"));
        let (mut raw, mut memory, mut name) = (0, 0usize, [0; NAME_BYTES]);
        // SAFETY: the places for the results are valid; the name's has as many bytes as is said.
        unsafe {
            self.check((t.device)(&raw mut raw, ordinal), what)?;
            self.check((t.device_memory)(&raw mut memory, raw), what)?;
            self.check((t.device_name)(name.as_mut_ptr(), name.len() as c_int, raw), what)?;
        }
        let name = name.iter().take_while(|&&b| b != 0).map(|&b| char::from(b as u8)).collect();
        Ok(Listed { raw, name, memory: memory as u64 })
    }
    /// An attribute of a device, by its number.
    ///
    /// # Errors
    /// What the driver reports; an old one does not know all numbers.
    pub fn attribute(&self, device: c_int, number: c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the place for the result is valid.
        let asked = unsafe { (self.table.device_attribute)(&raw mut value, number, device) };
        self.check(asked, || format!("looking at device {device}"))?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
    /// What kind of device it is, by the number of the attribute that tells.
    ///
    /// # Errors
    /// Those of [`Api::attribute`].
    pub fn kind(&self, device: c_int, integrated: c_int) -> Result<Kind> {
        Ok(match (self.emulated, self.attribute(device, integrated)?) {
            (true, _) => Kind::Software,
            (false, 0) => Kind::Discrete,
            (false, _) => Kind::Integrated,
        })
    }
    /// Is memory taken and given back in a stream's order? The number is of the attribute that
    /// tells; a driver that does not know it has none of that.
    pub fn has_pools(&self, device: c_int, supported: c_int) -> bool {
        let functions = self.table.allocate_async.is_some() && self.table.free_async.is_some();
        functions && self.attribute(device, supported).is_ok_and(|n| n == 1)
    }
}

/// A text as a part of a file's name.
pub fn file_word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
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
