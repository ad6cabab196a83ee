package kube

import (
	"os"
	"strconv"
	"time"
)

// How soon a connection of HTTP/2 on which nothing comes is asked whether it
// lives, and how soon that must be answered. client-go's own are 30 s and 15 s:
// the API's VIP is elsewhere within seconds, and a host that gave it away while
// it runs has connections from the VIP to itself, which nobody ends.
const (
	silentFor    = 3 * time.Second
	answerWithin = 3 * time.Second
)

// The variables by which client-go is told (k8s.io/apimachinery/pkg/util/net).
const (
	silentVariable = "HTTP2_READ_IDLE_TIMEOUT_SECONDS"
	answerVariable = "HTTP2_PING_TIMEOUT_SECONDS"
)

// noticeDeadConnections has this process give up connections to an API server
// that is gone after 6 s instead of 45 s. It counts for clients that are made
// afterwards, so every opening of an access calls it. What the environment says
// counts before it.
func noticeDeadConnections() {
	for name, d := range map[string]time.Duration{silentVariable: silentFor, answerVariable: answerWithin} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, strconv.Itoa(int(d/time.Second))) // it fails for names that are none
		}
	}
}
