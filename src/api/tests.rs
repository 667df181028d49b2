mod definitions;
mod objects;
mod words;
