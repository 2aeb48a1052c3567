// What Apple's header of this name says on a Mac.
#pragma once
#define TARGET_OS_OSX 1
