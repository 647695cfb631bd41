//! Which worker this process is: from the variables of the launcher that started it.

use elinvar_core::{Error, Result};

/// How this process was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// By itself.
    Alone,
    /// By a launcher that speaks MPI's process management.
    Mpi,
    /// As one of several that meet at an address.
    Tcp {
        /// This worker.
        rank: usize,
        /// All of them.
        workers: usize,
        /// The host of worker 0.
        host: String,
        /// Its port.
        port: u16,
    },
}

/// Rank and number of workers, as launchers call them.
struct Names {
    launcher: &'static str,
    rank: &'static str,
    workers: &'static str,
    local_rank: &'static str,
    mpi: bool,
}

/// The first whose rank is set is asked. torchrun's names are the common ones (Kubeflow, Ray and
/// `elinvar launch` set them, too).
const LAUNCHERS: [Names; 4] = [
    Names { launcher: "torchrun", rank: "RANK", workers: "WORLD_SIZE", local_rank: "LOCAL_RANK", mpi: false },
    Names {
        launcher: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        workers: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        mpi: true,
    },
    Names {
        launcher: "PMI",
        rank: "PMI_RANK",
        workers: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        mpi: true,
    },
    Names {
        launcher: "Slurm",
        rank: "SLURM_PROCID",
        workers: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        mpi: false,
    },
];

/// The port of worker 0 that torchrun takes.
const PORT: u16 = 29500;

/// Reads the launcher's variables by `get`. `transport` is ELINVAR_TRANSPORT.
///
/// # Errors
/// `InvalidArgument` if a variable is missing or makes no sense.
pub fn launch(get: impl Fn(&str) -> Option<String>) -> Result<Launch> {
    let wrong = |name: &str, why: String| Err(Error::argument(format!("distributed: {name}: {why}")));
    let transport = get("ELINVAR_TRANSPORT");
    match transport.as_deref() {
        None | Some("tcp" | "mpi") => {}
        Some(other) => return wrong("ELINVAR_TRANSPORT", format!("{other:?} is neither mpi nor tcp")),
    }
    let Some(names) = LAUNCHERS.iter().find(|l| get(l.rank).is_some()) else {
        return match transport.as_deref() {
            Some("mpi") => Ok(Launch::Mpi),
            _ => Ok(Launch::Alone),
        };
    };
    let number = |name: &str| -> Result<usize> {
        let text = get(name).ok_or_else(|| {
            Error::argument(format!(
                "distributed: {} is set, and {name} is not; {} sets both",
                names.rank, names.launcher
            ))
        })?;
        text.parse().map_err(|_| Error::argument(format!("distributed: {name}: {text:?} is no number")))
    };
    let (rank, workers) = (number(names.rank)?, number(names.workers)?);
    if rank >= workers {
        return wrong(names.rank, format!("{rank}, of {workers} workers ({})", names.workers));
    }
    match transport.as_deref() {
        Some("mpi") => return Ok(Launch::Mpi),
        None if names.mpi => return Ok(Launch::Mpi),
        _ => {}
    }
    if workers == 1 {
        return Ok(Launch::Alone);
    }
    let hosts = || get("SLURM_STEP_NODELIST").or_else(|| get("SLURM_JOB_NODELIST"));
    let host = get("MASTER_ADDR").or_else(|| hosts().and_then(|list| first_host(&list)));
    let Some(host) = host else {
        return wrong(
            "MASTER_ADDR",
            format!("it is not set; {workers} workers need the address of worker 0"),
        );
    };
    let port = match get("MASTER_PORT") {
        None => PORT,
        Some(text) => match text.parse() {
            Ok(port) if port != 0 => port,
            _ => return wrong("MASTER_PORT", format!("{text:?} is no port")),
        },
    };
    Ok(Launch::Tcp { rank, workers, host, port })
}

/// Which worker of its machine this is: which of its devices it takes. 0 without a launcher.
#[must_use]
pub fn local_rank(get: impl Fn(&str) -> Option<String>) -> usize {
    let names = LAUNCHERS.iter().find(|l| get(l.rank).is_some());
    names.and_then(|l| get(l.local_rank)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The first host of Slurm's list: `node[07-09,12],other` is node07.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at(end);
    let first = match rest.strip_prefix('[') {
        None => String::new(),
        Some(numbers) => numbers.chars().take_while(char::is_ascii_digit).collect(),
    };
    let host = format!("{name}{first}");
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Result<Launch> {
        launch(|name| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_string()))
    }
    fn tcp(rank: usize, workers: usize, host: &str, port: u16) -> Launch {
        Launch::Tcp { rank, workers, host: host.into(), port }
    }

    #[test]
    fn every_launcher_is_understood() {
        let torch = [("RANK", "2"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "node7"), ("MASTER_PORT", "1234")];
        let slurm =
            [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "3"), ("SLURM_STEP_NODELIST", "gpu[07-09,12],x")];
        let rows: [(&[(&str, &str)], Launch); 9] = [
            (&[], Launch::Alone),
            (&torch, tcp(2, 4, "node7", 1234)),
            (&[("RANK", "0"), ("WORLD_SIZE", "1")], Launch::Alone),
            (&[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "h")], tcp(0, 2, "h", PORT)),
            (&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")], Launch::Mpi),
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], Launch::Mpi),
            (&slurm, tcp(1, 3, "gpu07", PORT)),
            (&[("ELINVAR_TRANSPORT", "mpi")], Launch::Mpi),
            (
                &[
                    ("ELINVAR_TRANSPORT", "tcp"),
                    ("OMPI_COMM_WORLD_RANK", "1"),
                    ("OMPI_COMM_WORLD_SIZE", "2"),
                    ("MASTER_ADDR", "h"),
                ],
                tcp(1, 2, "h", PORT),
            ),
        ];
        for (vars, want) in rows {
            assert_eq!(with(vars).unwrap(), want, "{vars:?}");
        }
        let local = |vars: &[(&str, &str)]| {
            local_rank(|name| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_string()))
        };
        assert_eq!(local(&[]), 0);
        assert_eq!(local(&[("RANK", "5"), ("LOCAL_RANK", "1")]), 1);
        assert_eq!(local(&[("SLURM_PROCID", "5"), ("SLURM_LOCALID", "2")]), 2);
    }

    #[test]
    fn variables_that_make_no_sense_are_named() {
        let rows: [(&[(&str, &str)], &str); 7] = [
            (&[("RANK", "0")], "RANK is set, and WORLD_SIZE is not"),
            (&[("RANK", "x"), ("WORLD_SIZE", "2")], "RANK: \"x\" is no number"),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "RANK: 2, of 2 workers (WORLD_SIZE)"),
            (&[("RANK", "0"), ("WORLD_SIZE", "2")], "MASTER_ADDR: it is not set"),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "h"), ("MASTER_PORT", "70000")],
                "MASTER_PORT: \"70000\" is no port",
            ),
            (&[("ELINVAR_TRANSPORT", "udp")], "\"udp\" is neither mpi nor tcp"),
            (&[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "2")], "3, of 2 workers"),
        ];
        for (vars, sentence) in rows {
            let said = with(vars).unwrap_err().to_string();
            assert!(said.contains(sentence), "{vars:?}: {said}");
        }
    }

    #[test]
    fn lists_of_hosts() {
        let rows = [("a", "a"), ("a,b", "a"), ("n[3-5]", "n3"), ("n[007,9]x", "n007"), ("", "")];
        for (list, want) in rows {
            assert_eq!(first_host(list).unwrap_or_default(), want, "{list}");
        }
    }
}
