//! What differs between MPI libraries that were compiled against different headers: handles and
//! constants. Everything else is the same C functions.
//!
//! Three tables are enough: Open MPI (4 and 5), whose handles are addresses of its own objects;
//! MPICH and its derivatives (Intel MPI, MVAPICH, Cray MPICH), whose handles are integers; and the
//! ABI that MPI 5.0 fixes (section "Application Binary Interface"), whose handles are small numbers
//! in place of pointers.

use std::fmt;

/// Handles and constants of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    pub family: Family,
    /// `MPI_COMM_WORLD`, as an argument.
    pub world: usize,
    /// `MPI_BYTE`.
    pub byte: usize,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: usize,
    /// `MPI_FLOAT` and `MPI_SUM`.
    pub float: usize,
    pub sum: usize,
    /// `MPI_THREAD_FUNNELED`: there may be other threads, but one makes all calls.
    pub funneled: i32,
    /// `MPI_THREAD_SERIALIZED`: calls by any thread, one at a time.
    pub serialized: i32,
}

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    OpenMpi,
    Mpich,
    Standard,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::Standard => "MPI 5.0 ABI",
        })
    }
}

impl Abi {
    /// Of Open MPI, from the addresses of its objects.
    pub fn open_mpi([world, byte, errors_return, float, sum]: [usize; 5]) -> Abi {
        Abi { family: Family::OpenMpi, world, byte, errors_return, float, sum, funneled: 1, serialized: 2 }
    }
    /// `mpi.h` of MPICH 3 to 5.
    pub const MPICH: Abi = Abi {
        family: Family::Mpich,
        world: 0x4400_0000,
        byte: 0x4c00_010d,
        errors_return: 0x5400_0001,
        float: 0x4c00_040a,
        sum: 0x5800_0003,
        funneled: 1,
        serialized: 2,
    };
    /// MPI 5.0, annex A.
    pub const STANDARD: Abi = Abi {
        family: Family::Standard,
        world: 0x101,
        byte: 0x247,
        errors_return: 0x143,
        float: 0x210,
        sum: 0x21,
        funneled: 1024,
        serialized: 2048,
    };
}

/// Libraries to try, in this order, without one that the user names.
pub const LIBRARIES: [&str; 4] = ["libmpi.so.40", "libmpi_abi.so.1", "libmpi.so.12", "libmpi.so"];
