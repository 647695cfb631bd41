//! Which ways between devices a process allows, and which it asks for.

use elinvar_core::{Error, Result};

/// Is a way between devices used?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// If all workers can.
    IfThere,
    /// It is an error if one cannot.
    Always,
    Never,
}

/// Of each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub nccl: Wish,
    pub mpi: Wish,
}

impl Wishes {
    pub const NCCL: &str = "ELINVAR_NCCL";
    pub const MPI: &str = "ELINVAR_MPI_CUDA";

    /// From the variables that `get` reads.
    ///
    /// # Errors
    /// `InvalidArgument` if one of them makes no sense, or both ask for their way.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Wishes> {
        let wishes = Wishes { nccl: wish(Self::NCCL, &get)?, mpi: wish(Self::MPI, &get)? };
        match wishes {
            Wishes { nccl: Wish::Always, mpi: Wish::Always } => Err(Error::argument(
                "distributed: ELINVAR_NCCL=1 and ELINVAR_MPI_CUDA=1: devices send by one of both",
            )),
            _ => Ok(wishes),
        }
    }
}

fn wish(name: &str, get: impl Fn(&str) -> Option<String>) -> Result<Wish> {
    match get(name).as_deref() {
        None | Some("") => Ok(Wish::IfThere),
        Some("1") => Ok(Wish::Always),
        Some("0") => Ok(Wish::Never),
        Some(other) => Err(Error::argument(format!(
            "distributed: {name}: {other:?}; 1 asks for it, 0 goes without, and unset it is used where all workers can"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_says_one_of_three() {
        let read = |nccl: Option<&str>, mpi: Option<&str>| {
            Wishes::read(|name| if name == Wishes::NCCL { nccl } else { mpi }.map(str::to_owned))
        };
        let rows = [(None, Wish::IfThere), (Some(""), Wish::IfThere), (Some("0"), Wish::Never)];
        for (text, nccl) in rows {
            assert_eq!(read(text, Some("1")).unwrap(), Wishes { nccl, mpi: Wish::Always });
        }
        assert_eq!(read(Some("1"), None).unwrap(), Wishes { nccl: Wish::Always, mpi: Wish::IfThere });
        let both = read(Some("1"), Some("1")).unwrap_err();
        assert!(both.message().contains("ELINVAR_NCCL=1 and ELINVAR_MPI_CUDA=1"), "{both}");
        assert!(read(Some("yes"), None).unwrap_err().message().contains("ELINVAR_NCCL: \"yes\""));
        assert!(read(None, Some("2")).unwrap_err().message().contains("ELINVAR_MPI_CUDA: \"2\""));
    }
}
