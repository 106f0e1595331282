fn x(){}
pub fn compare(_:&std::path::Path,_:&std::path::Path)->Result<String,String>{x();Ok(String::new())}
