package jointoken

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/holdfast/holdfast/internal/state"
)

var (
	key   = bytes.Repeat([]byte("k"), MinKeyBytes)
	start = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
)

func mint(t testing.TB, key []byte, role state.Role, expires time.Time) string {
	t.Helper()
	token, err := Mint(key, Claims{Role: role, Expires: expires, Nonce: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func signed(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestATokenOpensItsRoleUntilItEnds(t *testing.T) {
	end := start.Add(time.Hour)
	worker := mint(t, key, state.RoleWorker, end)
	other := bytes.Repeat([]byte("o"), MinKeyBytes)
	claims := func(aud string, exp any, role any) jwt.MapClaims {
		m := jwt.MapClaims{"aud": aud, "role": role}
		if exp != nil {
			m["exp"] = exp
		}
		return m
	}
	tests := []struct {
		name  string
		token string
		role  state.Role
		now   time.Time
		want  error
	}{
		{"its role, in time", worker, state.RoleWorker, start, nil},
		{"used again", worker, state.RoleWorker, end.Add(-time.Second), nil},
		{"at its end", worker, state.RoleWorker, end, ErrExpired},
		{"long after", worker, state.RoleWorker, end.Add(24 * time.Hour), ErrExpired},
		{"a worker asks for a control plane", worker, state.RoleMaster, start, ErrRole},
		{"a control plane asks for a worker", mint(t, key, state.RoleMaster, end), state.RoleWorker, start, ErrRole},
		{"no role asked", worker, "", start, ErrRole},
		{"signed with another key", mint(t, other, state.RoleWorker, end), state.RoleWorker, start, ErrInvalid},
		{"another key and expired", mint(t, other, state.RoleWorker, start), state.RoleWorker, end, ErrInvalid},
		{"unsigned", signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(audience, end.Unix(), "worker")), state.RoleWorker, start, ErrInvalid},
		{"another hash", signed(t, jwt.SigningMethodHS512, key, claims(audience, end.Unix(), "worker")), state.RoleWorker, start, ErrInvalid},
		{"another purpose", signed(t, jwt.SigningMethodHS256, key, claims("x", end.Unix(), "worker")), state.RoleWorker, start, ErrInvalid},
		{"without end", signed(t, jwt.SigningMethodHS256, key, claims(audience, nil, "worker")), state.RoleWorker, start, ErrInvalid},
		{"without role", signed(t, jwt.SigningMethodHS256, key, claims(audience, end.Unix(), nil)), "", start, ErrInvalid},
		{"role is a list", signed(t, jwt.SigningMethodHS256, key, claims(audience, end.Unix(), []string{"worker"})), state.RoleWorker, start, ErrInvalid},
		{"empty", "", state.RoleWorker, start, ErrInvalid},
		{"nonsense", "a.b.c", state.RoleWorker, start, ErrInvalid},
		{"endless", strings.Repeat("a", MaxLength+1), state.RoleWorker, start, ErrInvalid},
		{"cut", worker[:len(worker)-1], state.RoleWorker, start, ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := Verify(key, tt.token, tt.role, tt.now); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAnEmptyKeyOpensNothing(t *testing.T) {
	if _, err := Mint(nil, Claims{Role: state.RoleWorker, Expires: start}); err == nil {
		t.Error("minted without a key")
	}
	forged := signed(t, jwt.SigningMethodHS256, []byte{}, jwt.MapClaims{"aud": audience, "role": "worker", "exp": start.Add(time.Hour).Unix()})
	if err := Verify(nil, forged, state.RoleWorker, start); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestATokenWithoutRoleOrEndIsNotMinted(t *testing.T) {
	for _, c := range []Claims{{Role: state.RoleWorker}, {Expires: start}} {
		if token, err := Mint(key, c); err == nil {
			t.Errorf("%+v: minted %s", c, token)
		}
	}
}

func FuzzVerifyTakesOnlyWhatWasMinted(f *testing.F) {
	good := mint(f, key, state.RoleWorker, start.Add(time.Hour))
	f.Add(good)
	f.Add(good + "A")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		err := Verify(key, token, state.RoleWorker, start)
		if (err == nil) != (token == good) {
			t.Errorf("token %q: %v", token, err)
		}
		if err != nil && token != "" && strings.Contains(err.Error(), token) && len(token) > 20 {
			t.Errorf("the error tells the token: %v", err)
		}
	})
}
