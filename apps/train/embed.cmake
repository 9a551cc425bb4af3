# cmake -DIN=file -DOUT=file.cc -DNAME=symbol -P embed.cmake: a file's bytes as an array of C++.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REPEAT "0x..," 16 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include <cstddef>\n"
                  "extern const unsigned char ${NAME}[];\n"
                  "extern const std::size_t ${NAME}_size;\n"
                  "const unsigned char ${NAME}[] = {\n${bytes}};\n"
                  "const std::size_t ${NAME}_size = sizeof ${NAME};\n")
