package hostnet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// endLimit bounds the wait for an API server that was asked to end: until it takes no new
// connection, and a second for the requests that it has. Then it ends with the last watch.
const endLimit = kubeadm.ShutdownDelay + time.Second

// apiServer is the API server of this host. kubelet starts another one in its place whenever it ends.
type apiServer struct {
	program host.PodProgram

	mu sync.Mutex
	// asked are the processes that were asked to end, at the last two times. Each is asked once: a second
	// signal would cut it off from what it still answers.
	asked []int
}

func newAPIServer() *apiServer {
	return &apiServer{program: host.PodProgram{Name: "kube-apiserver", Flag: "--service-account-key-file", File: "/etc/kubernetes/pki/sa.pub"}}
}

// end asks the API server to end, and waits a short time.
func (s *apiServer) end(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, endLimit)
	defer stop()
	pids, err := s.program.Processes()
	if err != nil {
		return // without it clients lose some requests, as with any shutdown
	}
	former := s.asked
	s.asked = pids
	for _, pid := range pids {
		if !slices.Contains(former, pid) {
			_ = host.EndProcess(ctx, pid, func() bool { return s.program.Is(pid) })
		}
	}
}

// endAnew kills one that kubelet has started in the place of those that were asked to end. It has answered
// nobody yet, or for a moment. It does not heed a request to end before it is ready, and after that it takes
// requests for kubeadm.ShutdownDelay. kubelet waits 10 s before it starts a third one.
func (s *apiServer) endAnew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	pids, err := s.program.Processes()
	if err != nil {
		return
	}
	for _, pid := range pids {
		if !slices.Contains(s.asked, pid) {
			_ = host.KillProcess(pid, func() bool { return s.program.Is(pid) })
		}
	}
}
