package dev.edgec;

import java.io.DataInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Checks whether an app's native libraries suit phones with pages of 16 KB: every loaded segment must be aligned to
 * them, and so must the library in the APK where it is not compressed. Google Play requires both.
 */
public final class PageSizeCheck {
    private static final long PAGE = 16384;

    private PageSizeCheck() {}

    /** The problems of an APK, one line per library; empty where there are none. */
    public static List<String> problems(File apk) throws IOException {
        List<String> problems = new ArrayList<>();
        try (ZipFile zip = new ZipFile(apk); RandomAccessFile raw = new RandomAccessFile(apk, "r")) {
            for (ZipEntry entry : zip.stream().toList()) {
                if (!entry.getName().startsWith("lib/") || !entry.getName().endsWith(".so")) continue;
                try (InputStream content = zip.getInputStream(entry)) {
                    long aligned = alignment(ByteBuffer.wrap(new DataInputStream(content).readAllBytes()));
                    if (aligned < PAGE) problems.add(entry.getName() + ": segments are aligned to " + aligned + " bytes");
                }
            }
            for (Stored stored : stored(raw)) {
                long rest = stored.start % PAGE;
                if (rest != 0) problems.add(stored.name + ": begins " + rest + " bytes after a page of the APK");
            }
        }
        return problems;
    }

    /** The smallest alignment of the loaded segments; 0 for a file that is not ELF. */
    private static long alignment(ByteBuffer elf) {
        if (elf.limit() < 64 || elf.getInt(0) != 0x7f454c46) return 0;
        elf.order(elf.get(5) == 1 ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN);
        boolean wide = elf.get(4) == 2;
        long table = wide ? elf.getLong(32) : elf.getInt(28);
        int size = elf.getShort(wide ? 54 : 42);
        int count = elf.getShort(wide ? 56 : 44);
        long smallest = Long.MAX_VALUE;
        for (int index = 0; index < count; index++) {
            int segment = (int) table + index * size;
            if (elf.getInt(segment) != 1) continue;
            smallest = Math.min(smallest, wide ? elf.getLong(segment + 48) : elf.getInt(segment + 28));
        }
        return smallest;
    }

    private record Stored(String name, long start) {}

    /** The uncompressed libraries with the offsets of their first bytes, which Java's own reader does not report. */
    private static List<Stored> stored(RandomAccessFile raw) throws IOException {
        List<Stored> libraries = new ArrayList<>();
        long end = raw.length() - 22;
        while (end >= 0 && int32(raw, end) != 0x06054b50) end--;
        if (end < 0) throw new IOException("not an APK: its directory is missing");
        int entries = int16(raw, end + 10);
        long place = int32(raw, end + 16) & 0xffffffffL;
        for (int index = 0; index < entries; index++) {
            int length = int16(raw, place + 28);
            byte[] name = new byte[length];
            raw.seek(place + 46);
            raw.readFully(name);
            String path = new String(name);
            long header = int32(raw, place + 42) & 0xffffffffL;
            long start = header + 30 + int16(raw, header + 26) + int16(raw, header + 28);
            boolean library = path.startsWith("lib/") && path.endsWith(".so");
            if (library && int16(raw, place + 10) == 0) libraries.add(new Stored(path, start));
            place += 46 + length + int16(raw, place + 30) + int16(raw, place + 32);
        }
        return libraries;
    }

    private static int int16(RandomAccessFile raw, long place) throws IOException {
        raw.seek(place);
        return Short.toUnsignedInt(Short.reverseBytes(raw.readShort()));
    }

    private static int int32(RandomAccessFile raw, long place) throws IOException {
        raw.seek(place);
        return Integer.reverseBytes(raw.readInt());
    }
}
