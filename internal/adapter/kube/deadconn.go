package kube

import (
	"os"
	"strconv"
	"time"
)

// silentFor is the time after which a silent HTTP/2 connection is tested by a
// ping, and answerWithin is the time for the answer. client-go uses 30 s and 15
// s, but the API's VIP moves within seconds. A host that gave the VIP away
// while it runs has connections from the VIP to itself, which nobody ends.
const (
	silentFor    = 3 * time.Second
	answerWithin = 3 * time.Second
)

// The environment variables by which client-go is configured
// (k8s.io/apimachinery/pkg/util/net).
const (
	silentVariable = "HTTP2_READ_IDLE_TIMEOUT_SECONDS"
	answerVariable = "HTTP2_PING_TIMEOUT_SECONDS"
)

// noticeDeadConnections makes this process give up connections to an API server
// that is gone after 6 s instead of 45 s. It affects clients that are made
// afterwards, so each use of an Access calls it. Values in the environment take
// precedence.
func noticeDeadConnections() {
	for name, d := range map[string]time.Duration{silentVariable: silentFor, answerVariable: answerWithin} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, strconv.Itoa(int(d/time.Second))) // it fails only for invalid names
		}
	}
}
