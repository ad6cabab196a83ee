// Package records reads and writes the files of the two-node protocol. Only this
// package knows the format of each file, who may read it and how it is made
// durable; package state defines the values and the paths.
package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Files gives access to the files of one host.
type Files struct {
	// Root is the folder that contains the host's files, empty on the host itself.
	Root string
}

// Path returns the path of a file of the host.
func (f Files) Path(name string) string { return filepath.Join(f.Root, name) }

// Record returns the record of etcd, in state none if there is no file. A record
// that is not understood completely is an error.
func (f Files) Record() (state.EtcdRecord, error) {
	r, err := read(f.Path(state.EtcdRecordPath), state.DecodeEtcdRecord)
	if err == nil && !r.Known {
		r.Value.State = state.EtcdNone
	}
	return r.Value, err
}

// HasRecord reports whether there is a record, and true if that cannot be read.
func (f Files) HasRecord() bool {
	_, err := os.Stat(f.Path(state.EtcdRecordPath))
	return !errors.Is(err, fs.ErrNotExist)
}

// WriteRecord replaces the record of etcd. A host whose disk is full gives its data
// directory up by a record, so the disk keeps room for one: the reserve beside it.
func (f Files) WriteRecord(r state.EtcdRecord) error {
	data, err := state.EncodeEtcdRecord(r)
	if err != nil {
		return err
	}
	return host.WriteFileReserved(f.Path(state.EtcdRecordPath), f.Path(state.EtcdReservePath), data, 0o600)
}

// Parameters returns what Pacemaker's configuration said of etcd when Pacemaker
// last passed it on, unknown if it never did.
func (f Files) Parameters() (state.Fact[state.EtcdParameters], error) {
	p, err := read(f.Path(state.EtcdParametersPath), state.DecodeEtcdParameters)
	if err != nil {
		return p, fmt.Errorf("%w; the next start of Pacemaker writes them again", err)
	}
	return p, nil
}

// WriteParameters stores what Pacemaker's configuration says of etcd.
func (f Files) WriteParameters(p state.EtcdParameters) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(f.Path(state.EtcdParametersPath), append(data, '\n'), 0o644)
}

// Wish returns what Pacemaker asked for in a boot. A note that cannot be read, or
// that is from another boot, counts as none.
func (f Files) Wish(boot string) state.EtcdWishNote {
	w, err := read(f.Path(state.EtcdWishPath), asJSON[state.EtcdWishNote])
	if err != nil || !w.Known || w.Value.Boot != boot {
		return state.EtcdWishNote{Wish: state.EtcdNotAsked, Boot: boot}
	}
	return w.Value
}

// WriteWish stores what Pacemaker asks for.
func (f Files) WriteWish(w state.EtcdWishNote) error {
	path := f.Path(state.EtcdWishPath)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return host.WriteFileReserved(path, f.Path(state.RunReservePath), data, 0o600)
}

// Defragmentation returns the note of a defragmentation on this host. One that is not there or
// cannot be read counts as none.
func (f Files) Defragmentation() state.EtcdDefragmentation {
	n, err := read(f.Path(state.EtcdDefragmentationPath), asJSON[state.EtcdDefragmentation])
	if err != nil || !n.Known {
		return state.EtcdDefragmentation{}
	}
	return n.Value
}

// WriteDefragmentation stores the note before a defragmentation begins, RemoveDefragmentation
// removes it after the end.
func (f Files) WriteDefragmentation(n state.EtcdDefragmentation) error {
	path := f.Path(state.EtcdDefragmentationPath)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(path, data, 0o644)
}

// RemoveDefragmentation removes the note; none is fine.
func (f Files) RemoveDefragmentation() error {
	err := os.Remove(f.Path(state.EtcdDefragmentationPath))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Fenced returns the proof of a fence of a target in this boot, unknown if there is
// none.
func (f Files) Fenced(target string) (state.Fact[state.EtcdFenced], error) {
	return read(f.proofPath(target), asJSON[state.EtcdFenced])
}

// AllFenced returns each proof of a fence in this boot. One that cannot be decoded
// is an error, but does not hide the others.
func (f Files) AllFenced() (proofs []state.EtcdFenced, err error) {
	entries, err := os.ReadDir(f.Path(state.FencedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var mistakes []error
	for _, e := range entries {
		target, is := strings.CutSuffix(e.Name(), ".json")
		if e.IsDir() || !is || strings.HasPrefix(target, ".") {
			continue
		}
		proof, err := f.Fenced(target)
		mistakes = append(mistakes, err)
		if proof.Known {
			proofs = append(proofs, proof.Value)
		}
	}
	return proofs, errors.Join(mistakes...)
}

// WriteFenced stores the proof of a fence for this host's etcd keeper. A fence that
// worked must not count as failed because somebody filled /run.
func (f Files) WriteFenced(proof state.EtcdFenced) error {
	if err := f.writeReserved(f.proofPath(proof.Target), proof); err != nil {
		return fmt.Errorf("evidence of the fence of %s: %w", proof.Target, err)
	}
	return nil
}

func (f Files) proofPath(target string) string {
	return f.Path(filepath.Join(state.FencedDir, target+".json"))
}

// Confirmation returns the administrator's confirmation of this boot, unknown if
// there is none.
func (f Files) Confirmation() (state.Fact[state.Confirmation], error) {
	return read(f.Path(state.EtcdConfirmationPath), asJSON[state.Confirmation])
}

// WriteConfirmation hands an administrator's confirmation to the etcd keeper.
func (f Files) WriteConfirmation(c state.Confirmation) error {
	if err := f.writeReserved(f.Path(state.EtcdConfirmationPath), c); err != nil {
		return fmt.Errorf("write confirmation: %w", err)
	}
	return nil
}

// Retired returns the retired peer that has no successor yet, unknown if there is none.
func (f Files) Retired() (state.Fact[state.EtcdRetired], error) {
	return read(f.Path(state.EtcdRetiredPath), asJSON[state.EtcdRetired])
}

// WriteRetired tells the etcd keeper that there is no peer.
func (f Files) WriteRetired(r state.EtcdRetired) error {
	if err := write(f.Path(state.EtcdRetiredPath), r); err != nil {
		return fmt.Errorf("write that %s is retired: %w", r.Peer, err)
	}
	return nil
}

// RemoveRetired tells the etcd keeper that there is a peer again.
func (f Files) RemoveRetired() error {
	if err := remove(f.Path(state.EtcdRetiredPath)); err != nil {
		return fmt.Errorf("tell the etcd keeper of a peer: %w", err)
	}
	return nil
}

// Third returns the plan's word about a third host, known and empty if there is none.
func (f Files) Third() (state.Fact[state.EtcdThirdWord], error) {
	word, err := read(f.Path(state.EtcdThirdPath), asJSON[state.EtcdThirdWord])
	if err != nil {
		return state.Fact[state.EtcdThirdWord]{}, err
	}
	return state.Known(word.Value), nil
}

// WriteThird tells the etcd keeper that a third host comes, and which member it may let vote.
func (f Files) WriteThird(w state.EtcdThirdWord) error {
	if w.Plan == "" || w.Host == "" {
		return fmt.Errorf("write that a third host comes: the word names no plan or no host: %+v", w)
	}
	if err := write(f.Path(state.EtcdThirdPath), w); err != nil {
		return fmt.Errorf("write that %s comes: %w", w.Host, err)
	}
	return nil
}

// RemoveThird tells the etcd keeper that no third host comes.
func (f Files) RemoveThird() error {
	if err := remove(f.Path(state.EtcdThirdPath)); err != nil {
		return fmt.Errorf("tell the etcd keeper that no third host comes: %w", err)
	}
	return nil
}

// remove removes a file for good: also a power cut does not bring it back. No file is fine.
func remove(path string) error {
	if err := host.RemoveFile(path); err != nil {
		return err
	}
	if err := host.SyncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// read reads a file with one value; without a file the fact is unknown.
func read[T any](path string, decode func([]byte) (T, error)) (state.Fact[T], error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state.Fact[T]{}, nil
	}
	if err != nil {
		return state.Fact[T]{}, err
	}
	value, err := decode(data)
	if err != nil {
		return state.Fact[T]{}, fmt.Errorf("%s: %w", path, err)
	}
	return state.Known(value), nil
}

func asJSON[T any](data []byte) (value T, err error) {
	if err := json.Unmarshal(data, &value); err != nil {
		return value, fmt.Errorf("cannot be parsed: %w", err)
	}
	return value, nil
}

// write replaces a file with one value that only its owner can read.
func write(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(path, append(data, '\n'), 0o600)
}

// writeReserved works like write, for a file below /run that must find room there.
func (f Files) writeReserved(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return host.WriteFileReserved(path, f.Path(state.RunReservePath), append(data, '\n'), 0o600)
}
