package chat_test
import ("testing";"strings";"time";"fmt"
"github.com/fairwayhq/fairway/oagent/chat")
func TestZZ(t *testing.T){
 big := strings.Repeat("x", 15<<20)
 many := strings.TrimSuffix(strings.Repeat(`{"a":1},`, 15<<17),",")
 short := strings.TrimSuffix(strings.Repeat(`"a",`, 9000),",")
 msgs := strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"a"},`, 500000),",")
 for n,b := range map[string]string{
  "obj": `{"messages":[{"role":"user","content":`+strings.Repeat(`{"a":`,58)+`"`+big+`"`+strings.Repeat("}",58)+`}]}`,
  "objq": `{"messages":[{"role":"user","content":`+strings.Repeat(`{"a":`,58)+`"`+strings.Repeat(`\"`, 15<<19)+`"`+strings.Repeat("}",58)+`}]}`,
  "many": `{"messages":[{"role":"user","content":`+strings.Repeat(`[`,58)+many+strings.Repeat("]",58)+`}]}`,
  "manyobj": `{"messages":[{"role":"user","content":`+strings.Repeat(`{"a":[`,28)+many+strings.Repeat("]}",28)+`}]}`,
  "short": `{"messages":[{"role":"user","content":[`+short+`]}]}`,
  "msgs": `{"messages":[`+msgs+`]}`,
  "esc": `{"messages":[{"role":"user","content":"`+strings.Repeat(`\\u0066`, 2<<20)+`"}]}`,
 }{
  t0:=time.Now()
  r,err:=chat.Completions.ReadRequest([]byte(b), chat.ReadOptions{})
  k:=0; if r!=nil {k=len(r.Inputs)}
  if err!=nil && len(err.Error())>200 {err=fmt.Errorf("%.200s",err)}
  t.Log(n, len(b), time.Since(t0), k, err)
 }
}
