//! `elinvar launch`: this program, once for each worker, on this machine.
//!
//! How it can be wrong: a worker that is left behind. So workers are ended when this process ends
//! in any way that lets it.

use crate::args::Launch;
use elinvar::{Error, Result};
use elinvar_cli_support::Verdict;
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, process, thread};

/// Time for the others to find that one is gone, and to say so.
const GRACE: Duration = Duration::from_secs(25);
const PAUSE: Duration = Duration::from_millis(10);

/// Workers by rank, with what they ended with.
struct Workers(Vec<(Child, Option<ExitStatus>)>);

impl Drop for Workers {
    fn drop(&mut self) {
        for (child, _) in self.0.iter_mut().filter(|w| w.1.is_none()) {
            // One that ended just now cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts the workers and waits for them.
pub fn run(args: &Launch) -> Result<Verdict> {
    let program = env::current_exe()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    let threads = thread::available_parallelism().map_or(1, usize::from) / args.workers as usize;
    let mut workers = Workers(vec![]);
    for rank in 0..args.workers {
        let mut command = Command::new(&program);
        command.args(&args.command);
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", args.workers.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("ELINVAR_TRANSPORT", "tcp").env("ELINVAR_JOB", format!("{}-{time}", process::id()));
        if env::var_os("ELINVAR_THREADS").is_none() {
            command.env("ELINVAR_THREADS", threads.max(1).to_string());
        }
        workers.0.push((command.spawn().map_err(|e| Error::from(e).at("launch"))?, None));
    }
    // The first that ended badly, and when.
    let mut failed: Option<(usize, ExitStatus, Instant)> = None;
    loop {
        for (rank, (child, ended)) in workers.0.iter_mut().enumerate().filter(|(_, w)| w.1.is_none()) {
            *ended = child.try_wait()?;
            if let Some(status) = ended.filter(|s| !s.success()) {
                // One without a status was killed: it is the cause, and not a consequence.
                let known = failed.filter(|f| f.1.code().is_none() || status.code().is_some());
                let since = failed.map_or_else(Instant::now, |f| f.2);
                failed = known.or(Some((rank, status, since)));
            }
        }
        let all = workers.0.iter().all(|w| w.1.is_some());
        match failed {
            None if all => return Ok(Verdict::Good),
            Some((rank, status, since)) if all || since.elapsed() > GRACE => {
                return Err(Error::io(format!(
                    "launch: worker {rank} of {} ended with {status}",
                    args.workers
                )));
            }
            _ => thread::sleep(PAUSE),
        }
    }
}
