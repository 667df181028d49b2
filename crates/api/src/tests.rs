mod definitions;
mod objects;
mod unknown;
mod words;
