// Package trust has this host trust the authorities that its site adds to those of the
// distribution. holdfast-trust.service runs it at each boot, and after each change of the
// file with them; it changes nothing where the host trusts them already.
//
// It owns the files holdfast-site-HASH.crt in the folders in which distributions look for
// additional authorities, and PendingPath. The distribution's own tool makes the list of
// them that programs read.
package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// PendingPath is there from before the first change until the list has been made of it:
// a run that was cut is made up for even if no file shows it.
const PendingPath = "/var/lib/holdfast/trust-pending"

// tool is the program of a distribution that makes its list, the folder of which it makes
// it, and the list that programs read.
type tool struct{ program, folder, list string }

var tools = []tool{
	{"update-ca-certificates", "/usr/local/share/ca-certificates", "/etc/ssl/certs/ca-certificates.crt"},
	{"update-ca-trust", "/etc/pki/ca-trust/source/anchors", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
}

// pattern matches the names of the files.
const pattern = "holdfast-site-*.crt"

// limit bounds the tool.
const limit = 2 * time.Minute

// Host is the host, with its effects.
type Host struct {
	// Root is "/" except in tests.
	Root      string
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	Remove    func(path string) error
	// Has reports whether the host has a program, and Run runs it.
	Has func(program string) bool
	Run func(ctx context.Context, program string) error
}

// ThisHost returns the running host.
func ThisHost() Host {
	return Host{
		Root: "/", WriteFile: host.WriteFileAtomic, Remove: os.Remove,
		Has: func(program string) bool {
			_, err := host.LookPath(program)
			return err == nil
		},
		Run: func(ctx context.Context, program string) error {
			ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end after %s", limit))
			defer stop()
			_, err := host.Run(ctx, host.Command(program))
			return err
		},
	}
}

// name returns the name of the file of a certificate. Another certificate has another one:
// update-ca-certificates makes OpenSSL's index anew only if a name is new.
func name(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return fmt.Sprintf("holdfast-site-%x.crt", sum[:8])
}

// Split returns the certificates of a bundle, each in the form of a file of its own: the
// tool of one distribution reads the first certificate of a file alone.
func Split(bundle []byte) [][]byte {
	var out [][]byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	return out
}

// Apply makes the host trust what its file says, and no longer what an earlier one said.
// It returns the number of authorities. A host whose site has never added any needs no
// tool, and one that trusts them already does not run it: it takes half a minute of the boot
// of a small machine.
func (h Host) Apply(ctx context.Context) (int, error) {
	bundle, err := os.ReadFile(h.at(state.TrustPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	found, err := h.found()
	if err != nil {
		return 0, err
	}
	certificates := Split(bundle)
	if len(certificates) == 0 && len(found) == 0 && !host.Exists(h.at(PendingPath)) {
		return 0, nil
	}
	i := slices.IndexFunc(tools, func(t tool) bool { return h.Has(t.program) })
	if i < 0 {
		return 0, fmt.Errorf("this host has neither %s nor %s: install the package ca-certificates", tools[0].program, tools[1].program)
	}
	if h.done(tools[i], certificates, found) {
		return len(certificates), nil
	}
	if err := h.WriteFile(h.at(PendingPath), nil, state.DefaultFileMode); err != nil {
		return 0, err
	}
	if err := h.write(tools[i].folder, certificates, found); err != nil {
		return 0, err
	}
	if err := h.Run(ctx, tools[i].program); err != nil {
		return 0, err
	}
	return len(certificates), h.Remove(h.at(PendingPath))
}

// done reports whether the folder has the certificates and nothing else of ours, and the
// list was made since. The list itself is read, because whoever puts an older one back, or
// loses it, leaves the folder as it is. One that cannot be read is made anew.
func (h Host) done(t tool, certificates [][]byte, found []string) bool {
	if host.Exists(h.at(PendingPath)) {
		return false
	}
	list, err := os.ReadFile(h.at(t.list))
	if err != nil {
		return false
	}
	listed := map[string]bool{}
	for _, c := range Split(list) {
		listed[string(c)] = true
	}
	wanted := map[string]bool{}
	for _, c := range certificates {
		path := h.at(t.folder + "/" + name(c))
		wanted[path] = true
		have, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(have, c) || !listed[string(c)] {
			return false
		}
	}
	return !slices.ContainsFunc(found, func(path string) bool { return !wanted[path] })
}

// write writes certificates into a folder, and removes every file of ours that is none of
// them.
func (h Host) write(folder string, certificates [][]byte, found []string) error {
	for _, c := range certificates {
		path := h.at(folder + "/" + name(c))
		found = slices.DeleteFunc(found, func(p string) bool { return p == path })
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, c) {
			continue
		}
		if err := h.WriteFile(path, c, state.DefaultFileMode); err != nil {
			return err
		}
	}
	for _, path := range found {
		if err := h.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// found returns the files of ours that are there, in the folders of all distributions:
// an installation of an earlier release wrote to each of them.
func (h Host) found() ([]string, error) {
	var out []string
	for _, t := range tools {
		paths, err := filepath.Glob(h.at(t.folder + "/" + pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, paths...)
	}
	return out, nil
}

func (h Host) at(path string) string { return filepath.Join(h.Root, path) }
