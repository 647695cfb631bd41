//! The device behind the C functions: memory, streams, events, modules.
//!
//! What is given to a stream is done when somebody waits for it, or asks often enough. So a host
//! that changes bytes before they were copied, or looks at results before they are there, gets
//! other numbers than it wants, every time.

use crate::machine::{Fault, FaultKind, Launch, Memory, run};
use crate::product::Multiply;
use crate::ptx::{Program, Refused, parse};
use crate::settings::{Settings, newest_ptx};
use crate::sys::raw::{HostBytes, Raw};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Bytes of shared memory that a launch may use before it was allowed more.
pub const MOST_SHARED: u32 = 48 << 10;
/// Operations that a stream keeps; then some are done whether anybody waits or not.
const MOST_KEPT: usize = 1024;

/// A number of `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub i32);

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
    pub const CAPTURE_UNSUPPORTED: Error = Error(900);

    /// The name that NVIDIA gives it.
    pub fn name(self) -> Option<&'static std::ffi::CStr> {
        Some(match self {
            Error(0) => c"CUDA_SUCCESS",
            Error::INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
            Error::OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
            Error::NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
            Error::NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
            Error::INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
            Error::INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
            Error::INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
            Error::INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
            Error::UNSUPPORTED_PTX_VERSION => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            Error::INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
            Error::NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
            Error::NOT_READY => c"CUDA_ERROR_NOT_READY",
            Error::ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            Error::MISALIGNED_ADDRESS => c"CUDA_ERROR_MISALIGNED_ADDRESS",
            Error::ILLEGAL_STATE => c"CUDA_ERROR_ILLEGAL_STATE",
            Error::NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
            Error::CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            _ => return None,
        })
    }
}

/// For how many instructions a copy of so many bytes counts.
fn copied(bytes: u64) -> u64 {
    1 + bytes / 512
}

/// What stays on the device.
#[derive(Debug)]
pub enum Work {
    /// From an address to another, so many bytes.
    Across { from: u64, to: u64, bytes: u64 },
    /// A launch.
    Launch(Arc<Program>, Launch),
    /// A product of matrices.
    Multiply(Multiply),
}

/// What a stream does.
#[derive(Debug)]
pub enum Operation {
    /// From the host to an address.
    Up(HostBytes, u64),
    /// From an address to the host.
    Down(u64, HostBytes),
    /// Work of the device.
    Work(Work),
    /// All of a graph's.
    Graph(Arc<Vec<Work>>),
    /// An event is passed.
    Record(u64),
    /// What follows comes after an event of another stream.
    Await(u64),
    /// Memory goes.
    Free(u64),
}

/// A place in a stream.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It was never recorded: whoever waits for it does not wait.
    New,
    /// It was recorded in this stream, and not passed yet.
    Ahead(u64),
    /// It was passed when the device's clock stood so.
    Passed(u64),
}

/// What was loaded.
struct Module {
    program: Arc<Program>,
    /// Bytes of shared memory that launches may ask for beside those that the program declares.
    dynamic: u32,
}

/// The device.
pub(crate) struct Device {
    settings: Settings,
    memory: Memory,
    used: u64,
    /// Instructions that were played, each of which takes a nanosecond: what is faster does not
    /// depend on what the host has to do beside.
    clock: u64,
    streams: HashMap<u64, VecDeque<Operation>>,
    /// Streams that capture what they are given, and what they were given.
    captures: HashMap<u64, Vec<Work>>,
    /// Graphs, ready to be launched or not.
    graphs: HashMap<u64, (bool, Arc<Vec<Work>>)>,
    events: HashMap<u64, Event>,
    /// Events that nobody names any more, and streams have not passed yet.
    orphans: HashSet<u64>,
    modules: HashMap<u64, Module>,
    /// Memory of the host that copies need not wait for, by its address.
    pinned: BTreeMap<usize, Raw>,
    /// An error that nothing works after.
    sticky: Option<Error>,
    last: u64,
}

type Done<T = ()> = Result<T, Error>;

impl Device {
    /// A device that nobody has used yet.
    pub fn new(settings: Settings) -> Device {
        Device {
            settings,
            memory: Memory::default(),
            used: 0,
            streams: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            events: HashMap::new(),
            clock: 0,
            orphans: HashSet::new(),
            modules: HashMap::new(),
            pinned: BTreeMap::new(),
            sticky: None,
            last: 0,
        }
    }
    /// What it is.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// The error that nothing works after, if there was one.
    pub fn check(&self) -> Done {
        self.sticky.map_or(Ok(()), Err)
    }
    fn handle(&mut self) -> u64 {
        self.last += 1;
        // Not small: a handle that is none is seen.
        self.last << 8 | 0xe1
    }

    // Memory

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.settings.memory - self.used
    }
    /// Memory, now; its address.
    pub fn allocate(&mut self, bytes: u64) -> Done<u64> {
        if bytes == 0 {
            return Err(Error::INVALID_VALUE);
        }
        if bytes > self.free_bytes() {
            // Memory that streams will give back.
            self.finish_all()?;
        }
        if bytes > self.free_bytes() {
            return Err(Error::OUT_OF_MEMORY);
        }
        let address = self.memory.add(bytes as usize).ok_or(Error::OUT_OF_MEMORY)?;
        self.used += bytes;
        Ok(address)
    }
    /// Memory goes, now.
    pub fn release(&mut self, address: u64) -> Done {
        let bytes = self.memory.remove(address).ok_or(Error::INVALID_VALUE)?;
        self.used -= bytes;
        Ok(())
    }
    /// Memory of the host.
    pub fn pin(&mut self, bytes: usize) -> Done<*mut std::ffi::c_void> {
        let raw = Raw::new(bytes).ok_or(Error::OUT_OF_MEMORY)?;
        let at = raw.host();
        self.pinned.insert(at as usize, raw);
        Ok(at)
    }
    /// Memory of the host goes, after all that may use it.
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

    /// A module from its text; with the reason, if it is refused.
    pub fn compile(&self, text: &str) -> Result<Program, (Error, String)> {
        let word = self.settings.refuse;
        if !word.is_empty() && text.contains(word) {
            return Err((Error::INVALID_PTX, format!("ptxas fatal: texts with {word:?} are refused")));
        }
        let program = parse(text, self.settings.capability, newest_ptx(self.settings.version));
        let of_device = |mut p: Program| {
            p.backwards = self.settings.backwards;
            p
        };
        program.map(of_device).map_err(|why| {
            let error = match why {
                Refused::Text(_) | Refused::Target(_) => Error::INVALID_PTX,
                Refused::Version(_) => Error::UNSUPPORTED_PTX_VERSION,
            };
            (error, format!("ptxas fatal: {why}"))
        })
    }
    /// Loads what was compiled; gives its handle.
    pub fn load(&mut self, program: Program) -> u64 {
        let handle = self.handle();
        let dynamic = MOST_SHARED.saturating_sub(program.shared as u32);
        self.modules.insert(handle, Module { program: Arc::new(program), dynamic });
        handle
    }
    /// The entry of a module, by its name: the module's handle is the function's, too.
    pub fn entry(&self, module: u64, name: &str) -> Done<u64> {
        if self.module(module)?.program.entry == name { Ok(module) } else { Err(Error::NOT_FOUND) }
    }
    /// A module goes. Launches that were given to a stream keep what they need.
    pub fn unload(&mut self, module: u64) -> Done {
        self.modules.remove(&module).map(drop).ok_or(Error::INVALID_HANDLE)
    }
    /// What is loaded under a handle.
    pub fn program(&self, function: u64) -> Done<&Arc<Program>> {
        Ok(&self.module(function)?.program)
    }
    fn module(&self, handle: u64) -> Done<&Module> {
        self.modules.get(&handle).ok_or(Error::INVALID_HANDLE)
    }
    /// Lets launches of a function ask for so many bytes of shared memory beside those that it
    /// declares.
    pub fn allow_shared(&mut self, function: u64, bytes: u32) -> Done {
        let most = self.settings.shared();
        let module = self.modules.get_mut(&function).ok_or(Error::INVALID_HANDLE)?;
        if bytes > most.saturating_sub(module.program.shared as u32) {
            return Err(Error::INVALID_VALUE);
        }
        module.dynamic = bytes;
        Ok(())
    }
    /// May a launch of a function ask for so many?
    pub fn may_share(&self, function: u64, bytes: u32) -> Done {
        if bytes <= self.module(function)?.dynamic { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }

    // Streams and events

    /// A stream.
    pub fn stream(&mut self) -> u64 {
        let handle = self.handle();
        self.streams.insert(handle, VecDeque::new());
        handle
    }
    /// A stream goes when it is done.
    pub fn end_stream(&mut self, stream: u64) -> Done {
        let done = self.finish(stream);
        self.streams.remove(&stream);
        done
    }
    /// An event that was not recorded yet.
    pub fn event(&mut self) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Event::New);
        handle
    }
    /// An event goes.
    pub fn end_event(&mut self, event: u64) -> Done {
        if let Event::Ahead(_) = self.known(event)? {
            // Who waits for it already still does.
            self.orphans.insert(event);
        } else {
            self.events.remove(&event);
        }
        Ok(())
    }
    /// From now on a stream keeps what it is given.
    pub fn begin_capture(&mut self, stream: u64) -> Done {
        if !self.streams.contains_key(&stream) {
            return Err(Error::INVALID_HANDLE);
        }
        match self.captures.insert(stream, Vec::new()) {
            None => Ok(()),
            Some(_) => Err(Error::ILLEGAL_STATE),
        }
    }
    /// What a stream was given since then, as a graph.
    pub fn end_capture(&mut self, stream: u64) -> Done<u64> {
        let all = self.captures.remove(&stream).ok_or(Error::ILLEGAL_STATE)?;
        let handle = self.handle();
        self.graphs.insert(handle, (false, Arc::new(all)));
        Ok(handle)
    }
    /// A graph that can be launched.
    pub fn instantiate(&mut self, graph: u64) -> Done<u64> {
        let all = match self.graphs.get(&graph) {
            Some((false, all)) => all.clone(),
            Some((true, _)) | None => return Err(Error::INVALID_HANDLE),
        };
        let handle = self.handle();
        self.graphs.insert(handle, (true, all));
        Ok(handle)
    }
    /// Gives a stream all that a graph has.
    pub fn launch_graph(&mut self, graph: u64, stream: u64) -> Done {
        match self.graphs.get(&graph) {
            Some((true, all)) => self.push(stream, Operation::Graph(all.clone())),
            Some((false, _)) | None => Err(Error::INVALID_HANDLE),
        }
    }
    /// A graph goes.
    pub fn end_graph(&mut self, graph: u64, ready: bool) -> Done {
        match self.graphs.remove(&graph) {
            Some((is, _)) if is == ready => Ok(()),
            Some(_) | None => Err(Error::INVALID_HANDLE),
        }
    }
    /// Gives a stream something to do.
    pub fn push(&mut self, stream: u64, operation: Operation) -> Done {
        if !self.streams.contains_key(&stream) {
            return Err(Error::INVALID_HANDLE);
        }
        if let Some(all) = self.captures.get_mut(&stream) {
            return match operation {
                Operation::Work(work) => {
                    all.push(work);
                    Ok(())
                }
                // What else a graph can have is not asked for.
                Operation::Up(..)
                | Operation::Down(..)
                | Operation::Graph(_)
                | Operation::Record(_)
                | Operation::Await(_)
                | Operation::Free(_) => Err(Error::CAPTURE_UNSUPPORTED),
            };
        }
        // Bytes that may go away are copied at once.
        let at_once = match &operation {
            Operation::Up(host, _) | Operation::Down(_, host) => !self.is_pinned(host),
            Operation::Record(event) => {
                *self.events.get_mut(event).ok_or(Error::INVALID_HANDLE)? = Event::Ahead(stream);
                false
            }
            Operation::Await(event) => {
                self.known(*event)?;
                false
            }
            Operation::Work(_) | Operation::Graph(_) | Operation::Free(_) => false,
        };
        let queue = self.streams.entry(stream).or_default();
        queue.push_back(operation);
        if at_once {
            return self.finish(stream);
        }
        if queue.len() > MOST_KEPT {
            self.next(stream)?;
        }
        Ok(())
    }
    /// Does all that a stream was given.
    pub fn finish(&mut self, stream: u64) -> Done {
        if !self.streams.contains_key(&stream) {
            return Err(Error::INVALID_HANDLE);
        }
        while self.next(stream)? {}
        Ok(())
    }
    /// Does all that all streams were given.
    pub fn finish_all(&mut self) -> Done {
        let all: Vec<u64> = self.streams.keys().copied().collect();
        all.into_iter().try_for_each(|s| self.finish(s))
    }
    fn known(&self, event: u64) -> Done<Event> {
        self.events.get(&event).copied().ok_or(Error::INVALID_HANDLE)
    }
    /// Is an event passed? Asking lets its stream do one thing.
    pub fn passed(&mut self, event: u64) -> Done<bool> {
        if let Event::Ahead(stream) = self.known(event)? {
            self.next(stream)?;
        }
        Ok(!matches!(self.known(event)?, Event::Ahead(_)))
    }
    /// Does what an event waits for.
    pub fn wait(&mut self, event: u64) -> Done {
        while let Event::Ahead(stream) = self.known(event)? {
            if !self.next(stream)? {
                return Err(Error::INVALID_HANDLE);
            }
        }
        Ok(())
    }
    /// Milliseconds from one event to another.
    pub fn elapsed(&self, from: u64, to: u64) -> Done<f32> {
        match (self.known(from)?, self.known(to)?) {
            (Event::Passed(a), Event::Passed(b)) => Ok(b.saturating_sub(a) as f32 * 1e-6),
            (Event::New, _) | (_, Event::New) => Err(Error::INVALID_HANDLE),
            (Event::Ahead(_), _) | (_, Event::Ahead(_)) => Err(Error::NOT_READY),
        }
    }
    /// Does the next thing of a stream; false if there is none.
    fn next(&mut self, stream: u64) -> Done<bool> {
        self.check()?;
        let Some(operation) = self.streams.get_mut(&stream).and_then(VecDeque::pop_front) else {
            return Ok(false);
        };
        if let Err((error, what)) = self.one(&operation) {
            eprintln!("emulated cuda: {what}");
            self.sticky = Some(error);
            return Err(error);
        }
        Ok(true)
    }
    fn range(&self, at: u64, bytes: u64) -> Result<(&Arc<Raw>, usize), (Error, String)> {
        self.memory.range(at, bytes).ok_or_else(|| {
            let what = format!("a copy of {bytes} bytes at {at:#x}, beyond what is allocated there");
            (Error::ILLEGAL_ADDRESS, what)
        })
    }
    fn work(&mut self, work: &Work) -> Result<(), (Error, String)> {
        self.clock += 1 + self.steps(work)?;
        Ok(())
    }
    /// Does some work; gives for how many instructions it counts.
    fn steps(&self, work: &Work) -> Result<u64, (Error, String)> {
        match work {
            Work::Across { from, to, bytes } => {
                let ((to, to_at), (from, from_at)) = (self.range(*to, *bytes)?, self.range(*from, *bytes)?);
                to.copy_from(to_at, from, from_at, *bytes as usize);
                Ok(copied(*bytes))
            }
            Work::Multiply(product) => product
                .run(&self.memory)
                .map_err(|what| (Error::ILLEGAL_ADDRESS, format!("a product: {what}"))),
            Work::Launch(program, launch) => run(program, launch, &self.memory).map_err(|f: Fault| {
                let error = match f.kind {
                    FaultKind::Illegal => Error::ILLEGAL_ADDRESS,
                    FaultKind::Misaligned => Error::MISALIGNED_ADDRESS,
                    FaultKind::Launch => Error::INVALID_VALUE,
                };
                (error, f.what)
            }),
        }
    }
    fn one(&mut self, operation: &Operation) -> Result<(), (Error, String)> {
        match operation {
            Operation::Up(host, to) => {
                let (raw, at) = self.range(*to, host.len() as u64)?;
                host.copy_to(raw, at);
                self.clock += copied(host.len() as u64);
            }
            Operation::Down(from, host) => {
                let (raw, at) = self.range(*from, host.len() as u64)?;
                host.copy_from(raw, at);
                self.clock += copied(host.len() as u64);
            }
            Operation::Work(work) => self.work(work)?,
            Operation::Graph(all) => all.iter().try_for_each(|work| self.work(work))?,
            // An event that is gone by now was passed.
            Operation::Await(event) => {
                while let Some(Event::Ahead(stream)) = self.events.get(event).copied() {
                    let went = self.next(stream).map_err(|e| (e, "what is waited for".to_string()))?;
                    if !went {
                        return Err((Error::INVALID_HANDLE, "streams wait for each other".to_string()));
                    }
                }
            }
            Operation::Record(event) => {
                if self.orphans.remove(event) {
                    self.events.remove(event);
                } else if let Some(recorded) = self.events.get_mut(event) {
                    *recorded = Event::Passed(self.clock);
                }
            }
            Operation::Free(address) => {
                self.release(*address)
                    .map_err(|e| (e, format!("memory at {address:#x} is freed, and there is none")))?;
            }
        }
        Ok(())
    }
}
