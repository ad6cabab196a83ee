// Package resolvconf reads the resolver's configuration of a host,
// resolv.conf(5), and puts the host's own name server first in it. The change
// can be reversed byte for byte: all former lines stay in the file, and those
// that must not count are commented out.
package resolvconf

import (
	"bytes"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Path is the file in which programs look for the resolver's configuration.
const Path = "/etc/resolv.conf"

// MaxServers is the number of name servers that a resolver reads, MAXNS in
// resolv.conf(5).
const MaxServers = 3

// port is the port of the name servers in a resolv.conf.
const port = 53

// The marks of our part of a file. Removing the prefix restores a line that was
// commented out.
const (
	begin   = "# Holdfast: begin (holdfast-agent keeps this part and takes it back)\n"
	end     = "# Holdfast: end\n"
	prefix  = "#holdfast# "
	wasLink = "# Holdfast: was a link to "
	wasMode = "# Holdfast: was of mode "
	wasNone = "# Holdfast: was no file\n"
)

// Own holds the entries that a host puts first.
type Own struct {
	// Server is the address that the host's own name server listens on.
	Server netip.Addr
	// Search is the cluster's domain, searched first.
	Search string
	// Implied is the domain that resolvers search if the file names none: the
	// domain of the host's name. It is empty if that has none.
	Implied string
}

// Was describes the file that Prepend replaced.
type Was struct {
	// Link is the target of the former symbolic link, exactly as it was written.
	Link string
	// Mode holds the permissions of the file; zero means the usual 0644.
	Mode fs.FileMode
	// Absent is true if there was no file.
	Absent bool
}

// Prepend returns the file with our part before it. Of the other name servers,
// it keeps as many as resolvers read. If the file already has our part, Prepend
// replaces that, so that prepending twice changes nothing.
func Prepend(data []byte, own Own, was Was) []byte {
	original, _, _ := Split(data)
	lines := lines(original)
	var out bytes.Buffer
	out.WriteString(begin)
	out.WriteString(was.lines())
	out.WriteString("search " + strings.Join(searchWith(own, lines), " ") + "\n")
	out.WriteString("nameserver " + own.Server.String() + "\n")
	if opts, spins := options(lines); spins && len(opts) > 0 {
		out.WriteString("options " + strings.Join(opts, " ") + "\n")
	}
	out.WriteString(end)
	left := MaxServers - 1
	for _, line := range lines {
		if hidden(line, own, &left) {
			out.WriteString(prefix)
		}
		out.WriteString(line)
	}
	return out.Bytes()
}

// Split returns the file before Prepend, a description of that file, and
// whether Prepend was applied at all.
func Split(data []byte) (original []byte, was Was, ours bool) {
	text := string(data)
	first := strings.Index("\n"+text, "\n"+begin)
	if first < 0 {
		return data, Was{}, false
	}
	block, rest, found := strings.Cut(text[first:], "\n"+end)
	if !found {
		return data, Was{}, false
	}
	var out strings.Builder
	for _, line := range lines([]byte(text[:first] + rest)) {
		out.WriteString(strings.TrimPrefix(line, prefix))
	}
	return []byte(out.String()), parseWas(block), true
}

// Servers returns the site's name servers in a file, in order and each once. It
// includes those that our part hid, but not our own.
func Servers(data []byte) []netip.AddrPort {
	original, _, _ := Split(data)
	var out []netip.AddrPort
	for _, line := range lines(original) {
		if addr, ok := server(line); ok {
			if at := netip.AddrPortFrom(addr, port); !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

// First returns the name server that resolvers ask first with this file.
func First(data []byte) (netip.Addr, bool) {
	for _, line := range lines(data) {
		if addr, ok := server(line); ok {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// hidden reports whether a line must not count beside our part. left is the
// number of name servers that may still count.
func hidden(line string, own Own, left *int) bool {
	switch keyword(line) {
	case "search", "domain":
		return true
	case "options":
		return slices.Contains(strings.Fields(line), "rotate")
	case "nameserver":
		addr, ok := server(line)
		if !ok {
			return false // resolvers cannot read it either
		}
		if addr == own.Server || *left == 0 {
			return true
		}
		*left--
		return false
	}
	return strings.HasPrefix(line, prefix) || strings.HasPrefix(line, strings.TrimSuffix(begin, "\n"))
}

// options returns all options except rotate, and whether that was set: with
// rotate, our server would be asked first only sometimes.
func options(lines []string) (rest []string, spins bool) {
	for _, line := range lines {
		words := strings.Fields(line)
		if keyword(line) != "options" || !slices.Contains(words, "rotate") {
			continue
		}
		spins = true
		for _, word := range words[1:] {
			if word != "rotate" {
				rest = append(rest, word)
			}
		}
	}
	return rest, spins
}

// searchWith puts the cluster's domain before the former search domains.
func searchWith(own Own, lines []string) []string {
	had := search(lines)
	if had == nil && own.Implied != "" {
		had = []string{own.Implied}
	}
	out := []string{own.Search}
	for _, domain := range had {
		if !slices.ContainsFunc(out, func(d string) bool { return sameDomain(d, domain) }) {
			out = append(out, domain)
		}
	}
	return out
}

func sameDomain(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

func search(lines []string) []string {
	var out []string
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case len(words) < 2:
		case words[0] == "search":
			out = slices.Clone(words[1:])
		case words[0] == "domain":
			out = []string{words[1]}
		}
	}
	return out
}

// server parses a line with the address of a name server.
func server(line string) (netip.Addr, bool) {
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "nameserver" {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(words[1])
	return addr.Unmap(), err == nil
}

func keyword(line string) string {
	if words := strings.Fields(line); len(words) > 0 {
		return words[0]
	}
	return ""
}

// lines splits a file into lines with their line ends.
func lines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	return strings.SplitAfter(string(data), "\n")
}

// lines returns lines that describe the former file within the new one: nothing
// else is needed to restore it.
func (w Was) lines() string {
	switch {
	case w.Absent:
		return wasNone
	case w.Link != "":
		return wasLink + strconv.Quote(w.Link) + "\n"
	case w.Mode != 0 && w.Mode != 0o644:
		return wasMode + strconv.FormatUint(uint64(w.Mode.Perm()), 8) + "\n"
	}
	return ""
}

// parseWas reads the output of lines. It ignores damaged lines.
func parseWas(block string) Was {
	var was Was
	for _, line := range strings.SplitAfter(block+"\n", "\n") {
		switch {
		case line == wasNone:
			was.Absent = true
		case strings.HasPrefix(line, wasLink):
			was.Link, _ = strconv.Unquote(strings.TrimSpace(strings.TrimPrefix(line, wasLink)))
		case strings.HasPrefix(line, wasMode):
			mode, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, wasMode)), 8, 9)
			was.Mode = fs.FileMode(mode)
		}
	}
	return was
}
