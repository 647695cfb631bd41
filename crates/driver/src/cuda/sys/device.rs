//! An opened CUDA device: its context, its stream, its limits and features.

use super::functions::Handle;
use super::library::{Api, api, none, shown};
use super::stream::{self, Stream};
use crate::{Info, Kind};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::ptx;
use elinvar_kernel::ir::{Elem, MmaShape};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The oldest compute capability that is supported: what kernels are emitted for.
const MIN_CAPABILITY: u32 = ptx::SM75.capability;

// Numbers of `CUdevice_attribute`.
const MAX_THREADS_PER_BLOCK: c_int = 1;
/// What a workgroup may have if the kernel asks for it (`Module`); without that it is 48 KiB on all
/// devices.
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
const WARP_SIZE: c_int = 10;
const MULTIPROCESSOR_COUNT: c_int = 16;
const INTEGRATED: c_int = 18;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const MEMORY_POOLS_SUPPORTED: c_int = 115;
/// Set to 0, kernels that fetch TMA tiles are not used: for comparisons.
const TMA_VARIABLE: &str = "ELINVAR_CUDA_BOXES";
/// The first driver that takes the PTX of kernels that fetch TMA tiles: CUDA 12.0.
const TMA_SINCE_VERSION: c_int = 12000;
/// A device that has not been opened.
#[derive(Clone)]
pub struct Physical {
    raw: c_int,
    pub info: Info,
    /// As in `sm_90`.
    pub capability: u32,
    pools: bool,
    /// What compiled kernels of it are known by.
    pub cache_name: String,
}

/// The devices of this machine, those with memory of their own first.
///
/// # Errors
/// `DriverMissing`; `Unsupported` if the driver is too old.
pub fn physical() -> Result<Vec<Physical>> {
    let api = api()?;
    let mut count = 0;
    // SAFETY: the place for the result is valid.
    api.check(unsafe { (api.table.device_count)(&raw mut count) }, || "counting devices".into())?;
    let mut all = (0..count).map(|i| look(api, i)).collect::<Result<Vec<Physical>>>()?;
    if all.is_empty() {
        return Err(none());
    }
    // Stable: devices of one kind stay in the driver's order.
    all.sort_by_key(|p| p.info.kind);
    Ok(all)
}

fn look(api: &Api, ordinal: c_int) -> Result<Physical> {
    let t = &api.table;
    let what = || format!("looking at device {ordinal}");
    let (mut raw, mut memory, mut name) = (0, 0usize, [0; 256]);
    // SAFETY: the places for the results are valid; the name's has 256 bytes.
    unsafe {
        api.check((t.device)(&raw mut raw, ordinal), what)?;
        api.check((t.device_memory)(&raw mut memory, raw), what)?;
        api.check((t.device_name)(name.as_mut_ptr(), name.len() as c_int, raw), what)?;
    }
    let attribute = |a: c_int| -> Result<u32> {
        let mut value = 0;
        // SAFETY: as above.
        api.check(unsafe { (t.device_attribute)(&raw mut value, a, raw) }, what)?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    // A driver that is too old to know the question has no pools.
    let pools = attribute(MEMORY_POOLS_SUPPORTED).unwrap_or(0) == 1;
    let capability = attribute(COMPUTE_CAPABILITY_MAJOR)? * 10 + attribute(COMPUTE_CAPABILITY_MINOR)?;
    let name: String = name.iter().take_while(|&&b| b != 0).map(|&b| char::from(b as u8)).collect();
    let kind = match (api.emulated, attribute(INTEGRATED)?) {
        (true, _) => Kind::Software,
        (false, 0) => Kind::Discrete,
        (false, _) => Kind::Integrated,
    };
    let word: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let tma = std::env::var_os(TMA_VARIABLE).is_none_or(|v| v != "0");
    Ok(Physical {
        raw,
        capability,
        pools: pools && t.allocate_async.is_some() && t.free_async.is_some(),
        cache_name: format!("cuda-{word}-sm{capability}-{}", api.version),
        info: Info {
            name,
            kind,
            driver: format!("driver of CUDA {}, sm_{capability}", shown(api.version)),
            memory: memory as u64,
            largest: memory as u64,
            alignment: 256,
            subgroup: [attribute(WARP_SIZE)?; 2],
            compute_units: Some(attribute(MULTIPROCESSOR_COUNT)?),
            shared: attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            invocations: attribute(MAX_THREADS_PER_BLOCK)?,
            // Parameters take 4096 bytes, and an address 8.
            buffers: 64,
            f64: true,
            i64: true,
            half: true,
            bytes: true,
            max_loop_iterations: None,
            short: false,
            queues: t.await_event.is_some(),
            cp_async: capability >= ptx::SM80_CP_ASYNC.capability,
            tma: tma
                && capability == ptx::SM90A_WGMMA.capability
                && api.version >= TMA_SINCE_VERSION
                && t.encode_map.is_some(),
            mma_shapes: mma_shapes(capability),
        },
    })
}

/// What its tensor cores multiply, as far as kernels are emitted for it.
fn mma_shapes(capability: u32) -> Vec<MmaShape> {
    if capability < ptx::SM80_MMA.capability {
        return Vec::new();
    }
    let mma_shapes = [(Elem::F16, 16), (Elem::BF16, 16), (Elem::F32, 8)];
    let mma_shapes = mma_shapes.map(|(elem, terms)| MmaShape { elem, shape: [16, 16, terms] });
    // Whether sums of f64 are the chains that kernels expect has to be tried.
    mma_shapes.into_iter().chain([MmaShape::F64_FMA_CHAIN]).collect()
}

/// What everything that was made by a device shares.
pub struct Shared {
    pub physical: Physical,
    pub(super) api: &'static Api,
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
    /// `Unsupported` if it is too old; what the driver reports.
    pub fn open(physical: Physical) -> Result<Arc<Shared>> {
        let api = api()?;
        let name = &physical.info.name;
        if physical.capability < MIN_CAPABILITY {
            return Err(Error::unsupported(format!(
                "cuda: {name} has compute capability {}.{}, and kernels need {}.{}",
                physical.capability / 10,
                physical.capability % 10,
                MIN_CAPABILITY / 10,
                MIN_CAPABILITY % 10
            )));
        }
        let what = || format!("opening {name}");
        let mut context = std::ptr::null_mut();
        // SAFETY: the device was listed; the place for the result is valid. A context that is not
        // used is released again.
        unsafe {
            api.check((api.table.retain_context)(&raw mut context, physical.raw), what)?;
            let made =
                api.check((api.table.set_context)(context), what).and_then(|()| stream::create(api, what));
            match made {
                Ok(first) => {
                    let (first, others) = (Stream::new(first), Mutex::default());
                    Ok(Arc::new(Shared { physical, api, context, first, others }))
                }
                Err(e) => {
                    (api.table.release_context)(physical.raw);
                    Err(e)
                }
            }
        }
    }
    /// Makes the device's context the calling thread's.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained as long as `self` lives.
        self.api
            .check(unsafe { (self.api.table.set_context)(self.context) }, || "entering the context".into())
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

impl Drop for Shared {
    fn drop(&mut self) {
        // An error was reported by a wait; here all that is left is to give things back.
        let _ = self.wait_for_all();
        self.first.destroy(self);
        if let Some(frees) = self.others().frees.take() {
            stream::destroy(self, frees);
        }
        // SAFETY: nothing else has this device: what it made holds it, also the other streams.
        unsafe { (self.api.table.release_context)(self.physical.raw) };
    }
}
