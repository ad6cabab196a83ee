package vrrp

import (
	"flag"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// stress is the time for which the processors are kept busy; hard case 39 wants
// a day.
var stress = flag.Duration("stress", 15*time.Second, "how long all processors are kept busy")

// Four programs for each processor, all with a higher priority than ordinary
// ones, leave almost nothing for others. The adverts must still be sent in
// time.
func TestHardCase39_BusyProcessorsMoveNothing(t *testing.T) {
	r := newRig(t, 3)
	r.start(both...)
	for _, h := range r.hosts {
		r.eventually("real-time scheduling on "+h.name, 5*time.Second, func() bool {
			out, _ := exec.Command("chrt", "--pid", strconv.Itoa(h.pid(render.VRRPPIDFile))).Output()
			return strings.Contains(string(out), "SCHED_RR")
		})
	}
	mark := r.mark()
	busy(t)
	time.Sleep(*stress)
	if n := r.mark() - mark; n != 0 {
		t.Errorf("%d changes in %s", n, *stress)
	}
	for _, h := range r.hosts {
		if strings.Contains(h.log("agent.log"), "hangs") {
			t.Errorf("%s: a daemon was taken for hung", h.name)
		}
	}
	if *moves > 0 { // the result without it
		r.count("with a nice value of -20 instead", -20)
		r.count("without either", 0)
	}
}

// count logs the number of moves on busy processors with a nice value instead
// of real-time scheduling.
func (r *rig) count(what string, nice int) {
	for _, h := range r.hosts {
		pid := h.pid(render.VRRPPIDFile)
		must(r.t, exec.Command("chrt", "--other", "--pid", "0", strconv.Itoa(pid)).Run())
		must(r.t, syscall.Setpriority(syscall.PRIO_PROCESS, pid, nice))
	}
	time.Sleep(2 * time.Second)
	mark := r.mark()
	time.Sleep(*stress)
	r.t.Logf("%s: %d changes in %s", what, r.mark()-mark, *stress)
}

// busy keeps all processors busy until the test ends.
func busy(t *testing.T) {
	for range 4 * runtime.NumCPU() {
		cmd := exec.Command("nice", "-n", "-10", "sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
}
