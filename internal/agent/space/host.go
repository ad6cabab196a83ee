package space

import (
	"encoding/json"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ThisHost is the files of this host. Its zero value is ready.
type ThisHost struct{ records records.Files }

// Last returns the report that was written last in this boot.
func (ThisHost) Last() (decide.Report, error) {
	return host.ReadState[decide.Report](state.EtcdSpacePath)
}

// Write stores a report.
func (ThisHost) Write(r decide.Report) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(state.EtcdSpacePath, append(data, '\n'), state.DefaultFileMode)
}

// Note stores that a defragmentation begins.
func (h ThisHost) Note(n state.EtcdDefragmentation) error { return h.records.WriteDefragmentation(n) }

// RemoveNote removes that.
func (h ThisHost) RemoveNote() error { return h.records.RemoveDefragmentation() }

// Wanted returns how long ago a person wished for a defragmentation.
func (ThisHost) Wanted() state.Fact[time.Duration] {
	info, err := os.Stat(state.EtcdDefragmentWantedPath)
	if err != nil {
		return state.Fact[time.Duration]{}
	}
	return state.Known(time.Since(info.ModTime()))
}

// RemoveWanted removes the wish.
func (ThisHost) RemoveWanted() error { return host.RemoveFile(state.EtcdDefragmentWantedPath) }

// DropAside removes data that an etcd keeper of this host once set aside.
func (ThisHost) DropAside() ([]string, error) { return etcd.DropAside(state.EtcdDataDir) }
