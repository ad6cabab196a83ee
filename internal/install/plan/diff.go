package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

// maxDiffLines bounds the lines that a step shows of a change.
const maxDiffLines = 200

// fileDiff returns the changes in a file. If the old or the new mode hides the
// file from group and others, it shows only a hash of the contents.
func fileDiff(path string, n Node, data []byte, mode fs.FileMode) string {
	old := n.Data
	switch {
	case n.Kind == KindFile && secret(n.Mode) || secret(mode):
		return hidden("secret", n, data) + modeDiff(n, mode)
	case !text(old) || !text(data):
		return hidden("binary", n, data) + modeDiff(n, mode)
	}
	return textDiff(path, old, data) + modeDiff(n, mode)
}

// textDiff returns a unified diff without the line that repeats the names.
func textDiff(path string, old, data []byte) string {
	_, hunks, _ := strings.Cut(string(diff.Diff("host:"+path, old, "ignition:"+path, data)), "\n")
	return cut(hunks)
}

// secret reports whether a mode hides a file from group and others.
func secret(mode fs.FileMode) bool { return mode.Perm()&0o077 == 0 }

func text(data []byte) bool {
	return utf8.Valid(data) && !strings.ContainsRune(string(data), 0)
}

func hidden(what string, n Node, data []byte) string {
	old := "absent"
	if n.Kind == KindFile {
		old = brief(n.Data)
	}
	return fmt.Sprintf("%s contents: %s -> %s\n", what, old, brief(data))
}

// brief identifies contents without showing them.
func brief(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:6])
}

func cut(s string) string {
	lines := strings.SplitAfterN(s, "\n", maxDiffLines+1)
	if len(lines) <= maxDiffLines {
		return s
	}
	rest := strings.Count(lines[maxDiffLines], "\n")
	return strings.Join(lines[:maxDiffLines], "") + fmt.Sprintf("... %d more lines\n", rest)
}

func modeDiff(n Node, mode fs.FileMode) string {
	switch {
	case n.Kind == KindAbsent || n.Kind == KindLink:
		return fmt.Sprintf("mode: %s\n", octal(mode))
	case n.Mode != mode:
		return fmt.Sprintf("mode: %s -> %s\n", octal(n.Mode), octal(mode))
	default:
		return ""
	}
}

func octal(mode fs.FileMode) string {
	bits := uint32(mode.Perm())
	for bit, flag := range specialBits {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}

func linkDiff(n Node, l Link) string {
	if n.Kind == KindLink {
		return fmt.Sprintf("target: %s -> %s\n", n.Target, l.Target)
	}
	return fmt.Sprintf("target: %s\n", l.Target)
}
