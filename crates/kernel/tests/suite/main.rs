//! The kernels of the library against the reference, and the language against its rules.

mod attention_boxes;
mod attention_boxes_grad;
mod attention_staged;
mod attention_units;
mod attention_units_grad;
mod backend;
mod boxes;
mod conv_by_units;
mod copies;
mod edges;
mod equal;
mod interp;
mod mutations;
mod neighbours;
mod products;
mod products_beside;
mod products_by_chains;
mod products_by_units;
mod products_of_boxes;
mod ptx;
mod ptx_machine;
mod random;
mod spirv;
mod text;
mod verify;
