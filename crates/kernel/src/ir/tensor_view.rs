//! IR: tensor views and tiles (tensor maps of TMA), and the blocks that wgmma multiplies.

use super::kernel::Value;
use super::op::Place;
use super::types::Elem;

/// Bytes of a row of a tile: the width of the 128-byte swizzle.
pub const TILE_ROW_BYTES: u32 = 128;
/// Rows of a tile, at most; they are a multiple of [`TILE_ROW_ALIGN`].
pub const MAX_TILE_ROWS: u32 = 256;
/// A tile begins in shared memory at a multiple of so many rows.
pub const TILE_ROW_ALIGN: u32 = 8;
/// Lines of a block of wgmma: rows or columns; terms, where lines are of rows or columns.
pub const WGMMA_BLOCK: u32 = 64;
/// Bytes of a block.
pub const WGMMA_BLOCK_BYTES: u32 = WGMMA_BLOCK * TILE_ROW_BYTES;
/// Invocations of a warpgroup, which multiplies a block of rows: four subgroups of 32.
pub const WARPGROUP: u32 = 128;

/// A buffer as planes of lines of neighbours, of which TMA tiles are fetched. Its numbers are
/// parameters of the launch, by number; they are integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorView {
    /// A word.
    pub name: String,
    /// Which buffer. It is only read.
    pub buffer: u32,
    /// Lines of a TMA tile; each is of [`TILE_ROW_BYTES`] bytes.
    pub lines: u32,
    /// Where the first element is. It is at a multiple of 16 bytes.
    pub offset: u32,
    /// How many elements a line has, how many lines a plane, and how many planes there are; none is
    /// 0.
    pub sizes: [u32; 3],
    /// Elements from line to line and from plane to plane: multiples of 16 bytes, above 0.
    pub strides: [u32; 2],
}

impl TensorView {
    /// Bytes of a TMA tile.
    pub const fn bytes(&self) -> u32 {
        self.lines * TILE_ROW_BYTES
    }
    /// The parameters, in the order of the text form.
    pub const fn param_ids(&self) -> [u32; 6] {
        let ([a, b, c], [d, e]) = (self.sizes, self.strides);
        [self.offset, a, b, c, d, e]
    }
    /// Are such elements fetched? On their way, f32 are rounded as tensor cores take them: to ten
    /// bits behind the point.
    pub const fn is_loadable(elem: Elem) -> bool {
        matches!(elem, Elem::F16 | Elem::BF16 | Elem::F32)
    }
    /// Are blocks of them also multiplied whose lines are of rows or columns?
    pub const fn is_transposable(elem: Elem) -> bool {
        matches!(elem, Elem::F16 | Elem::BF16)
    }
}

/// Elements of a line of a TMA tile.
pub fn tile_row_elements(elem: Elem) -> u32 {
    TILE_ROW_BYTES / elem.size()
}

/// What is wrong with the numbers of a view at a launch: offset, sizes, strides, all in elements.
/// `None` if nothing is.
pub fn tensor_map_error(
    elem: Elem,
    [offset, inner, lines, planes, line, plane]: [i64; 6],
) -> Option<&'static str> {
    // Elements of 16 bytes.
    let piece = i64::from(16 / elem.size());
    if offset < 0 || offset % piece != 0 {
        return Some("it does not begin at a multiple of 16 bytes");
    }
    if inner < 1 || lines < 1 || planes < 1 {
        return Some("it has no elements");
    }
    if line < 1 || plane < 1 || line % piece != 0 || plane % piece != 0 {
        return Some("its lines or planes are no multiples of 16 bytes apart");
    }
    None
}

/// A TMA tile of a view, fetched to shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TmaTile {
    /// Shared memory that holds TMA tiles.
    pub to: Place,
    /// Where it goes, in elements: a multiple of [`TILE_ROW_ALIGN`] lines.
    pub at: Value,
    /// The view, by number.
    pub view: u32,
    /// Where the tile begins: element of a line, line, plane. Of 32 bits. Elements beyond the
    /// view's sizes are zeros.
    pub from: [Value; 3],
}
