//! Who trains: one process; several, which a launcher started; or the threads of one, one for each
//! device of a list.

use elinvar::distributed::Group;
use elinvar::{Device, Error, Result, try_run};
use elinvar_cli_support::Verdict;
use std::io::{self, Write};
use std::{env, thread};

/// One of the workers of a training.
pub struct Worker {
    /// All of them.
    pub group: Group,
    /// Its own device.
    pub device: Device,
}

impl Worker {
    /// Is it the one that writes and tells?
    pub fn is_first(&self) -> bool {
        self.group.rank() == 0
    }
    /// What was sent, for a line at the end: bytes of each step and worker.
    pub fn told(&self, steps: u64, shards: usize) -> String {
        let sent = self.group.traffic();
        format!(
            "{} workers ({}), {shards} gradient shards, {} bytes in {} messages sent by worker {} for each of {steps} steps",
            self.group.size(),
            self.group.transport(),
            sent.bytes / steps.max(1),
            sent.messages / steps.max(1),
            self.group.rank(),
        )
    }
}

/// Runs `work` on each worker of this process. `devices` is a list, from which each takes the one
/// of its place on its machine.
pub fn each(
    devices: &str,
    out: &mut dyn Write,
    work: impl Fn(&Worker, &mut dyn Write) -> Result<Verdict> + Sync,
) -> Result<Verdict> {
    let names: Vec<&str> = devices.split(',').map(str::trim).collect();
    let group = Group::init()?;
    if group.size() > 1 || names.len() == 1 {
        return one(&group, || device(names[group.local_rank() % names.len()], &group), &work, out);
    }
    let processors = names.iter().filter(|name| **name == "cpu").count();
    let open = |name: &str| match name {
        "cpu" if processors > 1 && env::var_os("ELINVAR_THREADS").is_none() => {
            let all = thread::available_parallelism().map_or(1, usize::from);
            Device::builder("cpu").threads((all / processors).max(1)).build()
        }
        name => Device::parse(name),
    };
    let results: Vec<Result<Verdict>> = thread::scope(|s| {
        let mut groups = Group::threads(names.len());
        let (open, work) = (&open, &work);
        let others: Vec<_> = groups
            .drain(1..)
            .zip(&names[1..])
            .map(|(group, name)| s.spawn(move || one(&group, || open(name), work, &mut io::sink())))
            .collect();
        let first = groups.remove(0);
        let mut all = vec![one(&first, || open(names[0]), work, out)];
        // The others are to see that it is done, or gone.
        drop(first);
        for other in others {
            all.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    // That another one has left is a consequence: the cause tells more.
    let is_cause = |r: &&Result<Verdict>| r.as_ref().is_err_and(|e| !e.message().contains("has left"));
    if let Some(Err(cause)) = results.iter().find(is_cause) {
        return Err(cause.clone());
    }
    results.into_iter().collect::<Result<Vec<_>>>().map(|all| all[0])
}

/// The device of a name; without a number, of several workers each takes its own.
fn device(name: &str, group: &Group) -> Result<Device> {
    match name {
        "cuda" | "vulkan" | "webgpu" if group.size() > 1 => {
            Device::parse(&format!("{name}:{}", group.local_rank()))
        }
        name => Device::parse(name),
    }
}

fn one(
    group: &Group,
    open: impl FnOnce() -> Result<Device>,
    work: impl Fn(&Worker, &mut dyn Write) -> Result<Verdict>,
    out: &mut dyn Write,
) -> Result<Verdict> {
    let run = || work(&Worker { group: group.clone(), device: open()? }, out);
    let result = try_run(run).unwrap_or_else(Err);
    result.inspect_err(|e: &Error| group.fail(e))
}
