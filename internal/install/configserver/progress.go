package configserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Store stores the newest progress report of each host.
type Store interface {
	// Put replaces the stored report of the host. It returns ErrOtherRole or
	// ErrFull if it keeps the old state. If there is no room, it drops the worker
	// whose last report is the oldest.
	Put(p state.Progress) error
	// All returns the stored reports, sorted by host.
	All() ([]state.Progress, error)
}

// Reasons for which a Store rejects a report.
var (
	// ErrOtherRole reports that the host is known as a control plane: a worker's
	// token cannot report for it.
	ErrOtherRole = errors.New("this host is known as a control plane")
	// ErrFull reports that the store is full and contains only control planes.
	ErrFull = errors.New("too many hosts report")
)

// maxHosts bounds the number of hosts in Memory.
const maxHosts = 1024

// Memory is a Store without a file: it ends with the process.
type Memory struct {
	mu    sync.Mutex
	hosts map[string]state.Progress
	// heard lists the hosts in the order of their last reports.
	heard []string
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{hosts: map[string]state.Progress{}} }

// Put implements Store.
func (m *Memory) Put(p state.Progress) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(p)
}

func (m *Memory) put(p state.Progress) error {
	known, ok := m.hosts[p.Host]
	switch {
	case ok && known.Role.ControlPlane() && !p.Role.ControlPlane():
		return ErrOtherRole
	case !ok && len(m.hosts) >= maxHosts && !m.makeRoom():
		return ErrFull
	}
	m.hosts[p.Host] = p
	m.heard = append(slices.DeleteFunc(m.heard, func(host string) bool { return host == p.Host }), p.Host)
	return nil
}

// makeRoom drops a worker, and reports whether there was one. A real worker
// reports again within half a minute.
func (m *Memory) makeRoom() bool {
	i := slices.IndexFunc(m.heard, func(host string) bool { return !m.hosts[host].Role.ControlPlane() })
	if i < 0 {
		return false
	}
	delete(m.hosts, m.heard[i])
	m.heard = slices.Delete(m.heard, i, i+1)
	return true
}

// All implements Store.
func (m *Memory) All() ([]state.Progress, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all(), nil
}

func (m *Memory) all() []state.Progress {
	all := make([]state.Progress, 0, len(m.hosts))
	for _, host := range slices.Sorted(maps.Keys(m.hosts)) {
		all = append(all, m.hosts[host])
	}
	return all
}

// MaxProgressBytes bounds one report, in bytes.
const MaxProgressBytes = 64 << 10

func (s *server) postProgress(w http.ResponseWriter, r *http.Request) {
	own, ok := s.checked(w, r, "", r.PathValue("host"), s.Report)
	if !ok {
		return // read a body only with the host's own valid token
	}
	p, status, err := readReport(w, r)
	if err != nil {
		s.refuse(w, r, status, err.Error())
		return
	}
	if p.Role != own.Role {
		s.refuse(w, r, http.StatusForbidden, jointoken.ErrRole.Error())
		return
	}
	switch err := s.Progress.Put(p); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrOtherRole):
		s.refuse(w, r, http.StatusForbidden, ErrOtherRole.Error())
	case errors.Is(err, ErrFull):
		s.refuse(w, r, http.StatusInsufficientStorage, ErrFull.Error())
	default:
		s.Logf("keep progress: %v", err)
		http.Error(w, "progress cannot be kept; see the server's log", http.StatusInternalServerError)
	}
}

func readReport(w http.ResponseWriter, r *http.Request) (state.Progress, int, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxProgressBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return state.Progress{}, http.StatusRequestEntityTooLarge, fmt.Errorf("larger than %d KiB", MaxProgressBytes>>10)
	}
	if err != nil {
		return state.Progress{}, http.StatusBadRequest, errors.New("the body cannot be read")
	}
	var p state.Progress
	if json.Unmarshal(raw, &p) != nil {
		return state.Progress{}, http.StatusBadRequest, errors.New("the body is not a progress report")
	}
	switch {
	case p.Host != r.PathValue("host"):
		return state.Progress{}, http.StatusBadRequest, errors.New("the report is not that of the host in the path")
	case !validSteps(p.Steps):
		return state.Progress{}, http.StatusBadRequest, errors.New("a step is neither running, done nor failed")
	}
	return printable(p), 0, nil
}

func validSteps(steps []state.Step) bool {
	return !slices.ContainsFunc(steps, func(s state.Step) bool {
		return !slices.Contains([]state.StepState{state.StepRunning, state.StepDone, state.StepFailed}, s.State)
	})
}

// printable removes characters that could manipulate the terminal of a reader.
func printable(p state.Progress) state.Progress {
	p.Error = page.Printable(p.Error)
	for i := range p.Steps {
		p.Steps[i].Name, p.Steps[i].Message = page.Printable(p.Steps[i].Name), page.Printable(p.Steps[i].Message)
	}
	return p
}

func (s *server) readProgress(w http.ResponseWriter, r *http.Request) {
	if !s.mayRead(r) {
		s.refuse(w, r, http.StatusUnauthorized, "the read token is needed")
		return
	}
	all, err := s.Progress.All()
	if err != nil {
		s.Logf("read progress: %v", err)
		http.Error(w, "progress cannot be read; see the server's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}
