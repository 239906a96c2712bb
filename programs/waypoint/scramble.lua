-- Stores the bytes of objects scrambled: an example of a waypoint that re-encodes.
--
-- This is NO ENCRYPTION. The key is in the program, and equal bytes at equal offsets are stored
-- equally. Whoever has some bytes of an object in both forms can read all others of that offset.
--
-- The rule that names it is about all reads and writes of its objects:
--   * rw data/secret/* -> waypoint scramble
--
-- The program combines each byte with a second byte (exclusive or). The second byte depends on the offset.
-- Doing this twice restores the byte, so both functions do the same. Put a program with a key of your own under a name of its own: bytes
-- that one program has stored can only be read by the same program.

local KEY = 0x5f3759df

local function mask(word)
  local mixed = bit32.bxor(KEY, word % 0x100000000)
  mixed = bit32.bxor(mixed, bit32.lrotate(mixed, 13), bit32.lrotate(mixed, 22), 0x9e3779b9)
  return bit32.bxor(mixed, bit32.rshift(mixed, 15), bit32.lshift(mixed, 7))
end

local function scramble(offset, bytes)
  local at, length = 0, buffer.len(bytes)
  while at < length do
    local word, byte = (offset + at) // 4, (offset + at) % 4
    if byte == 0 and at + 4 <= length then
      buffer.writeu32(bytes, at, bit32.bxor(buffer.readu32(bytes, at), mask(word)))
      at += 4
    else
      local one = bit32.extract(mask(word), byte * 8, 8)
      buffer.writeu8(bytes, at, bit32.bxor(buffer.readu8(bytes, at), one))
      at += 1
    end
  end
end

encode = scramble
decode = scramble
