//! Command buffers of the stand-in: what they hold is done later, and as late as may be.

use super::{Buffer, Config, Device};
use crate::metal::sys::Outcome;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::{self, Launch, Memory, Quirks};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Questions after which the device begins with the next command buffer.
const QUESTIONS: u32 = 20;
/// Seconds that a command takes.
const COMMAND_SECONDS: f64 = 1e-3;

/// A kernel.
pub struct Compiled {
    kernel: Arc<Kernel>,
    pub most_threads: u32,
    pub lanes: u32,
}

impl Compiled {
    pub fn new(
        device: &Device,
        _: u32,
        kernel: &Kernel,
        text: &str,
        archive: &Option<PathBuf>,
    ) -> Result<Compiled> {
        assert!(text.contains("kernel void entry("), "{text}");
        if let Some(path) = archive {
            assert!(path.is_absolute() && path.extension().is_some_and(|e| e == "metalarchive"), "{path:?}");
        }
        // As many as there are registers for.
        let most_threads = if kernel.name == "many_registers" { 64 } else { 1024 };
        Ok(Compiled { kernel: Arc::new(kernel.clone()), most_threads, lanes: device.config.lanes })
    }
}

enum Command {
    Launch { kernel: Arc<Kernel>, buffers: Vec<(Buffer, u64)>, launch: Launch },
    Copy { from: (Buffer, u64), to: (Buffer, u64), bytes: u64 },
    Barrier,
}

/// What was committed and is not done.
#[derive(Default)]
struct UnderWay {
    work: VecDeque<(Vec<Command>, Arc<OnceLock<Outcome>>)>,
    questions: u32,
    clock: f64,
}

/// The queue of a device.
pub struct CommandQueue {
    under_way: Arc<Mutex<UnderWay>>,
    config: Config,
}

impl CommandQueue {
    pub fn new(device: &Device) -> Option<CommandQueue> {
        Some(CommandQueue { under_way: Arc::default(), config: device.config.clone() })
    }
}

/// Which encoder is open.
#[derive(Clone, Copy, PartialEq)]
enum Encoder {
    None,
    Launches,
    Copies,
}

pub struct Commands {
    under_way: Arc<Mutex<UnderWay>>,
    config: Config,
    commands: Vec<Command>,
    encoder: Encoder,
}

impl Commands {
    pub fn new(queue: &CommandQueue) -> Option<Commands> {
        let (under_way, config) = (queue.under_way.clone(), queue.config.clone());
        Some(Commands { under_way, config, commands: Vec::new(), encoder: Encoder::None })
    }
    pub fn barrier(&mut self) {
        self.commands.push(Command::Barrier);
    }
    fn encode(&mut self, encoder: Encoder, command: Command) {
        if self.encoder != encoder {
            self.barrier();
        }
        self.encoder = encoder;
        self.commands.push(command);
    }
    /// # Safety
    /// As Metal's.
    pub unsafe fn launch(
        &mut self,
        pipeline: &Compiled,
        buffers: &[(&Buffer, u64)],
        params: &[u8],
        launch: &Launch,
        group: [u32; 3],
    ) {
        assert!(params.len() <= 4096 && group == pipeline.kernel.group && !launch.groups.contains(&0));
        assert!(
            buffers.len() == pipeline.kernel.buffers.len() && buffers.iter().all(|(b, at)| *at <= b.len())
        );
        let buffers = buffers.iter().map(|&(b, at)| (b.clone(), at)).collect();
        let (kernel, launch) = (pipeline.kernel.clone(), launch.clone());
        self.encode(Encoder::Launches, Command::Launch { kernel, buffers, launch });
    }
    /// # Safety
    /// As Metal's.
    pub unsafe fn copy(&mut self, from: (&Buffer, u64), to: (&Buffer, u64), bytes: u64) {
        assert!([from.1, to.1, bytes].iter().all(|n| n % 4 == 0), "{} {} {bytes}", from.1, to.1);
        assert!(from.1 + bytes <= from.0.len() && to.1 + bytes <= to.0.len());
        let apart = from.0.at() != to.0.at() || from.1 + bytes <= to.1 || to.1 + bytes <= from.1;
        assert!(apart, "ranges that overlap");
        let [from, to] = [from, to].map(|(b, at)| (b.clone(), at));
        self.encode(Encoder::Copies, Command::Copy { from, to, bytes });
    }
    pub fn commit(self) -> Committed {
        let Commands { under_way, commands, config, .. } = self;
        each_buffer(&commands, |b| {
            b.0.pending.fetch_add(1, SeqCst);
        });
        let outcome = Arc::new(OnceLock::new());
        under_way.lock().unwrap_or_else(PoisonError::into_inner).work.push_back((commands, outcome.clone()));
        Committed { under_way, outcome, config }
    }
}

fn each_buffer(commands: &[Command], mut f: impl FnMut(&Buffer)) {
    for command in commands {
        match command {
            Command::Launch { buffers, .. } => buffers.iter().for_each(|(b, _)| f(b)),
            Command::Copy { from, to, .. } => [from, to].into_iter().for_each(|(b, _)| f(b)),
            Command::Barrier => {}
        }
    }
}

pub struct Committed {
    under_way: Arc<Mutex<UnderWay>>,
    outcome: Arc<OnceLock<Outcome>>,
    config: Config,
}

impl Committed {
    pub fn wait(&self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        while self.outcome.get().is_none() {
            under_way.next(&self.config);
        }
    }
    pub fn outcome(&self) -> Option<Outcome> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.questions += 1;
        if under_way.questions.is_multiple_of(QUESTIONS) {
            under_way.next(&self.config);
        }
        self.outcome.get().cloned()
    }
}

impl UnderWay {
    /// Does the next command buffer.
    fn next(&mut self, config: &Config) {
        let Some((commands, outcome)) = self.work.pop_front() else { return };
        let mut error = config.fails.lock().unwrap_or_else(PoisonError::into_inner).take();
        for section in commands.split(|c| matches!(c, Command::Barrier)) {
            for command in section.iter().rev() {
                self.clock += COMMAND_SECONDS;
                if error.is_none() {
                    error = command.run(config).err();
                }
            }
        }
        each_buffer(&commands, |b| {
            b.0.pending.fetch_sub(1, SeqCst);
        });
        drop(commands);
        let _ = outcome.set(Outcome { end: self.clock, error });
    }
}

impl Command {
    fn run(&self, config: &Config) -> Result<()> {
        match self {
            Command::Barrier => Ok(()),
            Command::Copy { from, to, bytes } => {
                let mut copied = vec![0; *bytes as usize];
                // SAFETY: the ranges were checked; the driver under test has seen to the rest.
                unsafe {
                    from.0.read(from.1, &mut copied);
                    to.0.range(to.1, copied.len()).copy_from(copied.as_ptr(), copied.len());
                }
                Ok(())
            }
            Command::Launch { kernel, buffers, launch } => {
                let mut memory: Vec<Memory> =
                    buffers.iter().zip(&kernel.buffers).map(|((b, at), of)| cells(b, *at, of.elem)).collect();
                let before = memory.clone();
                let quirks = Quirks { flushes: config.flushes, ..Quirks::default() };
                interp::run_with_quirks(kernel, launch, &mut memory, quirks)
                    .map_err(|e| Error::new(ErrorKind::DeviceLost, format!("metal: {e}")))?;
                for ((after, before), (b, at)) in memory.iter().zip(&before).zip(buffers) {
                    let size = after.elem.size() as usize;
                    // Buffers may be parts of one: what was not stored to is left alone.
                    let pairs = after.cells.iter().zip(&before.cells).enumerate();
                    for (i, (cell, _)) in pairs.filter(|(_, (after, before))| after != before) {
                        let bytes = cell.to_le_bytes();
                        // SAFETY: the cell is one of the buffer's; the driver has seen to the rest.
                        unsafe { b.range(at + (i * size) as u64, size).copy_from(bytes.as_ptr(), size) };
                    }
                }
                Ok(())
            }
        }
    }
}

/// The elements of a buffer from a place on.
fn cells(b: &Buffer, at: u64, elem: elinvar_kernel::ir::Elem) -> Memory {
    let mut bytes = vec![0; (b.len() - at) as usize];
    // SAFETY: the range lies in the buffer; the driver under test has seen to the rest.
    unsafe { b.read(at, &mut bytes) };
    let cell = |c: &[u8]| {
        let mut all = [0; 8];
        all[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(all)
    };
    Memory { elem, cells: bytes.chunks_exact(elem.size() as usize).map(cell).collect() }
}
