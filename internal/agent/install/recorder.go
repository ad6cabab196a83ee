package install

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// recorder keeps a host's progress in a file and in the log, and sends it by
// publish. It is the only writer of the progress file.
type recorder struct {
	mu      sync.Mutex
	path    string
	now     func() time.Time
	log     io.Writer
	publish func([]byte)
	p       state.Progress
}

// start records that a step runs. A retry replaces its failed try: a host may try
// for days, and a report has a size limit.
func (r *recorder) start(name string) {
	r.update(func(p *state.Progress) {
		p.Error = ""
		if last, any := p.Current(); any && last.Name == name && last.State == state.StepFailed {
			p.Steps = p.Steps[:len(p.Steps)-1]
		}
		p.Steps = append(p.Steps, state.Step{Name: name, State: state.StepRunning, Started: r.now()})
	})
	r.logf("%s ...", name)
}

// wait records what the current step waits for, if that changed.
func (r *recorder) wait(message string) {
	if step, ok := r.p.Current(); ok && step.Message == message {
		return
	}
	r.update(func(p *state.Progress) { p.Steps[len(p.Steps)-1].Message = message })
	r.logf("  %s", message)
}

func (r *recorder) end(err error) {
	r.update(func(p *state.Progress) {
		step := &p.Steps[len(p.Steps)-1]
		step.Ended, step.State, step.Message = r.now(), state.StepDone, ""
		if err != nil {
			step.State, step.Message, p.Error = state.StepFailed, err.Error(), err.Error()
		}
	})
	if err != nil {
		r.logf("failed: %v", err)
	}
}

// goBy records the host by another name.
func (r *recorder) goBy(name string) {
	r.update(func(p *state.Progress) { p.Host = name })
}

func (r *recorder) complete() {
	r.update(func(p *state.Progress) { p.Complete = true })
	r.logf("this host is installed")
}

func (r *recorder) update(change func(*state.Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.p)
	data := r.encoded()
	if err := host.WriteFileAtomic(r.path, data, state.DefaultFileMode); err != nil {
		r.logf("progress is not recorded: %v", err)
	}
	if r.publish != nil {
		r.publish(data)
	}
}

// encoded returns the progress as it is reported. A Progress has nothing that
// cannot be encoded.
func (r *recorder) encoded() []byte {
	data, _ := json.Marshal(r.p)
	return data
}

func (r *recorder) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.log, format+"\n", args...)
}
