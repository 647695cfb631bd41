//! The device behind the C functions: memory, streams, events, modules.
//!
//! Work on a stream is deferred until the host waits for it, or polls often enough. So a host that
//! changes bytes before they were copied, or reads results before they are written, reliably gets
//! wrong values.

mod graph;
mod stream;

use crate::machine::{Launch, Memory};
use crate::product::Multiply;
use crate::program::Program;
use crate::sys::raw::{HostBytes, Raw};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stream::{Event, Stream};

/// What devices differ in.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// What messages begin with.
    pub name: &'static str,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of shared memory that a launch may use without an attribute that allows more.
    pub shared: u32,
    /// And with one.
    pub most_shared: u32,
}

/// A code of `CUresult`, or of `hipError_t`, whose numbers are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub i32);

#[allow(missing_docs, reason = "the names are those of the vendors' headers")]
impl Error {
    pub const INVALID_VALUE: Error = Error(1);
    pub const OUT_OF_MEMORY: Error = Error(2);
    pub const NOT_INITIALIZED: Error = Error(3);
    pub const NO_DEVICE: Error = Error(100);
    pub const INVALID_DEVICE: Error = Error(101);
    pub const INVALID_IMAGE: Error = Error(200);
    pub const INVALID_CONTEXT: Error = Error(201);
    pub const INVALID_PTX: Error = Error(218);
    pub const UNSUPPORTED_PTX_VERSION: Error = Error(222);
    pub const INVALID_HANDLE: Error = Error(400);
    pub const NOT_FOUND: Error = Error(500);
    pub const ILLEGAL_STATE: Error = Error(401);
    pub const NOT_READY: Error = Error(600);
    pub const ILLEGAL_ADDRESS: Error = Error(700);
    pub const MISALIGNED_ADDRESS: Error = Error(716);
    pub const NOT_SUPPORTED: Error = Error(801);
    pub const NO_BINARY: Error = Error(209);
    pub const CAPTURE_UNSUPPORTED: Error = Error(900);
}

/// Work that does not involve the host.
#[derive(Debug)]
pub enum Work {
    /// A copy from one address to another, in bytes.
    Across {
        /// The first byte that is read.
        from: u64,
        /// The first byte that is written.
        to: u64,
        /// How many.
        bytes: u64,
    },
    /// A kernel launch.
    Launch(Arc<Program>, Launch),
    /// A matrix product.
    Multiply(Multiply),
}

/// An operation of a stream.
#[derive(Debug)]
pub enum Operation {
    /// A copy from the host to an address.
    Up(HostBytes, u64),
    /// A copy from an address to the host.
    Down(u64, HostBytes),
    /// Work of the device.
    Work(Work),
    /// All work of a graph.
    Graph(Arc<Vec<Work>>),
    /// Records an event.
    Record(u64),
    /// Waits for an event of another stream.
    Await(u64),
    /// Frees memory.
    Free(u64),
}

/// A loaded module.
struct Module {
    program: Arc<Program>,
    /// Bytes of dynamic shared memory that launches may ask for.
    dynamic: u32,
}

/// The device.
pub struct Device {
    properties: Properties,
    memory: Memory,
    used: u64,
    /// The host's time: that of the latest work that it waited for.
    now: u64,
    streams: HashMap<u64, Stream>,
    /// Streams in capture, and the work captured so far.
    captures: HashMap<u64, Vec<Work>>,
    /// Graphs, and whether they are instantiated.
    graphs: HashMap<u64, (bool, Arc<Vec<Work>>)>,
    events: HashMap<u64, Event>,
    /// Events that were destroyed before their stream reached them: others may wait for them.
    orphans: HashMap<u64, Event>,
    modules: HashMap<u64, Module>,
    /// Pinned host memory, which copies need not wait for, by address.
    pinned: BTreeMap<usize, Raw>,
    /// An error after which every call fails.
    sticky: Option<Error>,
    last: u64,
}

/// A result.
pub type Done<T = ()> = Result<T, Error>;

impl Device {
    /// A new device.
    pub fn new(properties: Properties) -> Device {
        Device {
            properties,
            memory: Memory::default(),
            used: 0,
            streams: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            events: HashMap::new(),
            now: 0,
            orphans: HashMap::new(),
            modules: HashMap::new(),
            pinned: BTreeMap::new(),
            sticky: None,
            last: 0,
        }
    }
    /// The sticky error, if there was one.
    pub fn check(&self) -> Done {
        self.sticky.map_or(Ok(()), Err)
    }
    fn handle(&mut self) -> u64 {
        self.last += 1;
        // Not small, so that an invalid handle is detected.
        self.last << 8 | 0xe1
    }

    // Memory

    /// Free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.properties.memory - self.used
    }
    /// Allocates memory at once; returns its address.
    pub fn allocate(&mut self, bytes: u64) -> Done<u64> {
        if bytes == 0 {
            return Err(Error::INVALID_VALUE);
        }
        if bytes > self.free_bytes() {
            // Runs the frees that streams have deferred.
            self.finish_all()?;
        }
        if bytes > self.free_bytes() {
            return Err(Error::OUT_OF_MEMORY);
        }
        let address = self.memory.add(bytes as usize).ok_or(Error::OUT_OF_MEMORY)?;
        self.used += bytes;
        Ok(address)
    }
    /// Frees memory at once.
    pub fn release(&mut self, address: u64) -> Done {
        let bytes = self.memory.remove(address).ok_or(Error::INVALID_VALUE)?;
        self.used -= bytes;
        Ok(())
    }
    /// Allocates pinned host memory.
    pub fn pin(&mut self, bytes: usize) -> Done<*mut std::ffi::c_void> {
        let raw = Raw::new(bytes).ok_or(Error::OUT_OF_MEMORY)?;
        let at = raw.host();
        self.pinned.insert(at as usize, raw);
        Ok(at)
    }
    /// Frees pinned memory, after all operations that may use it.
    pub fn unpin(&mut self, at: usize) -> Done {
        if !self.pinned.contains_key(&at) {
            return Err(Error::INVALID_VALUE);
        }
        let done = self.finish_all();
        self.pinned.remove(&at);
        done
    }
    fn is_pinned(&self, host: &HostBytes) -> bool {
        let before = self.pinned.range(..=host.address()).next_back();
        before.is_some_and(|(at, raw)| host.address() + host.len() <= at + raw.len())
    }

    // Modules

    /// Loads a compiled module; returns its handle.
    pub fn load(&mut self, program: Program) -> u64 {
        let handle = self.handle();
        let dynamic = self.properties.shared.saturating_sub(program.shared as u32);
        self.modules.insert(handle, Module { program: Arc::new(program), dynamic });
        handle
    }
    /// The entry of a module, by name; the function has the module's handle.
    pub fn entry(&self, module: u64, name: &str) -> Done<u64> {
        if self.module(module)?.program.entry == name { Ok(module) } else { Err(Error::NOT_FOUND) }
    }
    /// Unloads a module. Launches already in a stream keep what they need.
    pub fn unload(&mut self, module: u64) -> Done {
        self.modules.remove(&module).map(drop).ok_or(Error::INVALID_HANDLE)
    }
    /// The program of a handle.
    pub fn program(&self, function: u64) -> Done<&Arc<Program>> {
        Ok(&self.module(function)?.program)
    }
    fn module(&self, handle: u64) -> Done<&Module> {
        self.modules.get(&handle).ok_or(Error::INVALID_HANDLE)
    }
    /// Allows launches of a function this many bytes of dynamic shared memory.
    pub fn allow_shared(&mut self, function: u64, bytes: u32) -> Done {
        let most = self.properties.most_shared;
        let module = self.modules.get_mut(&function).ok_or(Error::INVALID_HANDLE)?;
        if bytes > most.saturating_sub(module.program.shared as u32) {
            return Err(Error::INVALID_VALUE);
        }
        module.dynamic = bytes;
        Ok(())
    }
    /// May a launch of a function use this many bytes?
    pub fn may_share(&self, function: u64, bytes: u32) -> Done {
        if bytes <= self.module(function)?.dynamic { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }

    // Streams and events

    /// Creates a stream.
    pub fn stream(&mut self) -> u64 {
        let handle = self.handle();
        self.streams.insert(handle, Stream { clock: self.now, ..Stream::default() });
        handle
    }
    /// Destroys a stream after its work is done.
    pub fn end_stream(&mut self, stream: u64) -> Done {
        let done = self.finish(stream);
        self.streams.remove(&stream);
        done
    }
    /// Creates an event, not recorded yet.
    pub fn event(&mut self) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Event::New);
        handle
    }
    /// Destroys an event.
    pub fn end_event(&mut self, event: u64) -> Done {
        let state = self.known(event)?;
        self.events.remove(&event);
        if let Event::Ahead(_) = state {
            self.orphans.insert(event, state);
        }
        Ok(())
    }
}
