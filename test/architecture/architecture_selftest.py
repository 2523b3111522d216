"""The architecture checks catch what they are for: run on made-up trees, where every breach is known."""

import tempfile
import unittest
from pathlib import Path

import clean_text
import layers

OPENING = "#pragma once\n// What: a thing.   Owner: nobody.   Threads: any.\n"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Layers(Tree):
    def breaches(self):
        return layers.check(self.root)

    def test_a_lawful_tree_has_no_breach(self):
        self.write("include/simbridge/frame/ring.h", OPENING + '#include "simbridge/base/bytes.h"\n#include <vector>\n')
        self.write("include/simbridge/base/bytes.h", OPENING)
        self.write("src/frame/ring.cpp", '#include "simbridge/frame/ring.h"\n#include "frame/slab.h"\n#include <sys/mman.h>\n')
        self.write("src/frame/slab.h", "#pragma once\n")
        self.write("src/wire/parse.cpp", '#include "simbridge/frame/ring.h"\n#include "simbridge/v1/bridge.pb.h"\n')
        self.assertEqual(self.breaches(), [])

    def test_a_step_back_is_named_with_file_line_and_rule(self):
        self.write("src/frame/ring.cpp", '\n\n#include "simbridge/session/hub.h"\n')
        self.assertEqual(self.breaches(), ["src/frame/ring.cpp:3: frame may not include session"])

    def test_transport_client_and_admin_never_see_each_other(self):
        self.write("src/client/send.cpp", '#include "simbridge/transport/listener.h"\n')
        self.write("src/transport/ws.cpp", '#include "simbridge/admin/admin.h"\n')
        self.write("src/admin/routes.cpp", '#include "simbridge/client/commands.h"\n')
        self.assertEqual(len(self.breaches()), 3)

    def test_a_private_header_of_another_module_is_refused_even_to_app(self):
        self.write("src/app/main.cpp", '#include "frame/slab.h"\n')
        self.assertEqual(self.breaches(), ["src/app/main.cpp:1: frame/slab.h is private to frame"])

    def test_a_library_outside_its_module_is_refused(self):
        self.write("src/session/session.cpp", "#include <boost/asio/post.hpp>\n#include <google/protobuf/arena.h>\n")
        self.assertEqual(
            self.breaches(),
            ["src/session/session.cpp:1: session may not use asio", "src/session/session.cpp:2: session may not use protobuf"],
        )

    def test_generated_code_counts_as_protobuf(self):
        self.write("src/session/session.cpp", '#include "simbridge/v1/bridge.pb.h"\n')
        self.assertEqual(self.breaches(), ["src/session/session.cpp:1: session may not use protobuf"])

    def test_heavy_headers_stay_in_source_files(self):
        self.write("src/transport/ws.h", "#include <boost/beast/core.hpp>\n")
        self.write("src/transport/ws.cpp", "#include <boost/beast/core.hpp>\n")
        self.assertEqual(self.breaches(), ["src/transport/ws.h:1: beast headers are for source files only"])

    def test_a_library_that_nobody_decided_on_is_refused(self):
        self.write("src/app/main.cpp", "#include <absl/strings/str_cat.h>\n")
        self.assertEqual(
            self.breaches(), ["src/app/main.cpp:1: 'absl/strings/str_cat.h' belongs to no library that the table knows"]
        )

    def test_a_public_header_that_only_its_own_module_uses_is_named(self):
        self.write("include/simbridge/wire/parse.h", OPENING)
        self.write("src/wire/parse.cpp", '#include "simbridge/wire/parse.h"\n')
        self.assertEqual(
            self.breaches(), ["include/simbridge/wire/parse.h:1: no other module includes it; it belongs into src/wire/"]
        )

    def test_a_public_header_needed_through_another_public_one_is_fine(self):
        self.write("include/simbridge/wire/inner.h", OPENING)
        self.write("include/simbridge/wire/outer.h", OPENING + '#include "simbridge/wire/inner.h"\n')
        self.write("src/session/session.cpp", '#include "simbridge/wire/outer.h"\n')
        self.assertEqual(self.breaches(), [])

    def test_a_public_header_says_what_it_is_and_which_threads_may_call(self):
        self.write("include/simbridge/wire/x.h", "#pragma once\n// What: x.\n")
        self.write("src/session/x.cpp", '#include "simbridge/wire/x.h"\n')
        self.assertEqual(
            self.breaches(), ["include/simbridge/wire/x.h:1: a public header opens with 'What:' … 'Threads:'; no 'Threads:'"]
        )

    def test_a_folder_outside_the_table_is_named(self):
        self.write("src/util/strings.cpp", "")
        self.assertEqual(self.breaches(), ["src/util/strings.cpp:1: 'util' is not a module of the table"])

    def test_admin_may_read_snapshots_of_others_and_nothing_else(self):
        self.write("include/simbridge/session/session_snapshot.h", OPENING)
        self.write("include/simbridge/session/hub.h", OPENING)
        self.write("src/admin/routes.cpp", '#include "simbridge/session/session_snapshot.h"\n#include "simbridge/session/hub.h"\n')
        self.assertEqual(self.breaches(), ["src/admin/routes.cpp:2: admin may not include session"])


class CleanText(Tree):
    def test_plain_text_is_clean(self):
        self.write("README.md", "See ../shared/x and https://example.com, $root/work.\n")
        self.assertEqual(clean_text.check(self.root), [])

    def test_machine_paths_hosts_and_markers_are_named(self):
        self.write("a.md", "cd /wor" + "k/main\n")
        self.write("b.sh", "x\ncurl https://pypi" + ".org/x\n")
        self.write("c.cpp", "<" * 7 + " HEAD\n")
        self.write("d.cpp", "int x; \n")
        self.assertEqual(
            clean_text.check(self.root),
            [
                "a.md:1: a path of one machine",
                "b.sh:2: a registry's host",
                "c.cpp:1: a conflict marker",
                "d.cpp:1: white space at the end of the line",
            ],
        )

    def test_a_file_that_is_not_text_must_have_a_suffix_that_says_so(self):
        (self.root / "x.dat").write_bytes(b"\xff\xfe")
        (self.root / "y.bin").write_bytes(b"\xff\xfe")
        self.assertEqual(clean_text.check(self.root), ["x.dat:1: neither text in UTF-8 nor of a suffix known as binary"])


if __name__ == "__main__":
    unittest.main()
