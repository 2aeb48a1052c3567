"""iPhones and the simulator, through Xcode's command line tools or pymobiledevice3."""
