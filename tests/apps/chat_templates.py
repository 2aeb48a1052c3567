"""Chat templates of published families, each written from its published form: the same text, with less around it.

``PIECES``: those that are made of pieces. All others depend on more than the kinds of two neighbouring messages, and an
app renders them whole.
"""

from __future__ import annotations

from typing import Final

_CHATML: Final = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
_ANSWER: Final = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
_ALTERNATE: Final = (
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
)

CHATML: Final = f"{{% for m in messages %}}{_CHATML}{{% endfor %}}{_ANSWER}"
# A default system message of its own before the first question.
SMOLLM2: Final = (
    "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}"
    "{% endif %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}" + _ANSWER
)
QWEN2_5: Final = (
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}"
    "{%- else %}{{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud.<|im_end|>\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'user' or (m.role == 'system' and not loop.first) or "
    "(m.role == 'assistant' and not m.tool_calls) %}"
    "{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}"
    "{%- elif m.role == 'tool' %}{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}"
    "{{- '<|im_start|>user' }}{%- endif %}{{- '\n<tool_response>\n' }}{{- m.content }}{{- '\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}{%- endif %}"
    "{%- endfor %}" + _ANSWER
)
# Reasoning of earlier turns is left out, and the last turn's stands in markers.
QWEN3: Final = """
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and m.role == "user" and not (m.content.startswith('<tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.role == "user" or (m.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}
    {%- elif m.role == "assistant" %}
        {%- set content = m.content %}
        {%- set reasoning = '' %}
        {%- if '</think>' in m.content %}
            {%- set content = m.content.split('</think>')[-1].lstrip('\\n') %}
            {%- set reasoning = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' }}
            {{- content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
LLAMA2: Final = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    f"{{% for m in loop_messages %}}{_ALTERNATE}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + m['content'] %}"
    "{% else %}{% set content = m['content'] %}{% endif %}"
    "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif m['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA3: Final = (
    "{% for m in messages %}{% set content = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' "
    "+ m['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
# The date of the day in every system message.
LLAMA3_2: Final = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for m in messages %}
    {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n'+ m['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""
GEMMA2: Final = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    f"{{% for m in messages %}}{_ALTERNATE}"
    "{% if m['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
# A system message becomes the beginning of the first question.
GEMMA3: Final = (
    "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- set first = messages[0]['content'] + '\n\n' -%}"
    "{%- set talk = messages[1:] -%}{%- else -%}{%- set first = '' -%}{%- set talk = messages -%}{%- endif -%}"
    f"{{%- for m in talk -%}}{_ALTERNATE}"
    "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' }}"
    "{{ first if loop.first else '' }}"
    "{%- if m['content'] is string -%}{{ m['content'] | trim }}{%- elif m['content'] is iterable -%}"
    "{%- for item in m['content'] -%}{%- if item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{{ '<end_of_turn>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
# A system message stands before the last question, wherever it came.
MISTRAL: Final = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for m in loop_messages %}
    {%- if not (m.role == "tool" or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in loop_messages %}
    {%- if m["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + m["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + m["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif m["role"] == "assistant" %}
        {{- " " + m["content"]|trim + eos_token }}
    {%- elif m["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + m.content|string + '}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}"""
PHI3: Final = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{'<|system|>\n' + m['content'] + '<|end|>\n'}}"
    "{% elif m['role'] == 'user' %}{{'<|user|>\n' + m['content'] + '<|end|>\n'}}"
    "{% elif m['role'] == 'assistant' %}{{'<|assistant|>\n' + m['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
DEEPSEEK_R1: Final = (
    "{% set ns = namespace(is_first=true, system_prompt='') %}"
    "{%- for m in messages %}{%- if m['role'] == 'system' %}{% set ns.system_prompt = m['content'] %}{%- endif %}"
    "{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}"
    "{%- for m in messages %}{%- if m['role'] == 'user' %}{{ '<｜User｜>' + m['content'] }}{%- endif %}"
    "{%- if m['role'] == 'assistant' and m['content'] is not none %}{% set content = m['content'] %}"
    "{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{ '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}{%- endif %}{%- endfor -%}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"
)
COMMAND_R: Final = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set talk = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set talk = messages %}"
    "{% set system_message = false %}{% endif %}"
    "{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message "
    "+ '<|END_OF_TURN_TOKEN|>' }}{% endif %}"
    f"{{% for m in talk %}}{_ALTERNATE}{{% set content = m['content'] %}}"
    "{% if m['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() "
    "+ '<|END_OF_TURN_TOKEN|>' }}{% elif m['role'] == 'assistant' %}"
    "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"
)
GLM4: Final = (
    "[gMASK]<sop>{% for item in messages %}{% if item['role'] == 'system' %}<|system|>\n{{ item['content'] }}"
    "{% elif item['role'] == 'user' %}<|user|>\n{{ item['content'] }}"
    "{% elif item['role'] == 'assistant' %}<|assistant|>{{ item['metadata'] }}\n{{ item['content'] }}"
    "{% elif item['role'] == 'tool' %}<|observation|>\n{{ item['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# The default system message has a date in it; contents that are empty are left out.
GRANITE3: Final = (
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}"
    "{%- set loop_messages = messages[1:] %}{%- else %}"
    "{%- set system_message = \"Today's Date: \" + strftime_now('%B %d, %Y') + '.\nYou are Granite.' %}"
    "{%- set loop_messages = messages %}{%- endif %}"
    "{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}"
    "{%- for m in loop_messages %}{{- '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + m['content'] "
    "+ '<|end_of_text|>\n' }}{%- if loop.last and add_generation_prompt %}"
    "{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}{%- endfor %}"
)
ZEPHYR: Final = (
    "{% for m in messages %}\n{% if m['role'] == 'user' %}\n{{ '<|user|>\n' + m['content'] + eos_token }}\n"
    "{% elif m['role'] == 'system' %}\n{{ '<|system|>\n' + m['content'] + eos_token }}\n"
    "{% elif m['role'] == 'assistant' %}\n{{ '<|assistant|>\n' + m['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
LFM2: Final = (
    "{{- bos_token -}}{%- set system_prompt = '' -%}{%- set ns = namespace(system_prompt='') -%}"
    "{%- if messages[0]['role'] == 'system' -%}{%- set ns.system_prompt = messages[0]['content'] -%}"
    "{%- set messages = messages[1:] -%}{%- endif -%}"
    "{%- if ns.system_prompt -%}{{- '<|im_start|>system\n' + ns.system_prompt + '<|im_end|>\n' -}}{%- endif -%}"
    "{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + '\n' -}}{%- set content = m['content'] -%}"
    "{%- if content is not string -%}{%- set content = content | tojson -%}{%- endif -%}"
    "{%- if m['role'] == 'tool' -%}{%- set content = '<|tool_response_start|>' + content + '<|tool_response_end|>' -%}"
    "{%- endif -%}{{- content + '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)

TEMPLATES: Final = {
    "chatml": CHATML,
    "smollm2": SMOLLM2,
    "qwen2.5": QWEN2_5,
    "qwen3": QWEN3,
    "llama2": LLAMA2,
    "llama3": LLAMA3,
    "llama3.2": LLAMA3_2,
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "mistral": MISTRAL,
    "phi3": PHI3,
    "deepseek-r1": DEEPSEEK_R1,
    "command-r": COMMAND_R,
    "glm4": GLM4,
    "granite3": GRANITE3,
    "zephyr": ZEPHYR,
    "lfm2": LFM2,
}
PIECES: Final = frozenset({"chatml", "smollm2", "qwen2.5", "llama3", "llama3.2", "gemma2", "glm4"})
DATED: Final = frozenset({"llama3.2", "granite3"})
