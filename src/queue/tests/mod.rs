mod cases;
mod histories;
mod model;
