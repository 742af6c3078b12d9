# task: relu
# style: tabs, one-liners, semicolons, no spaces
import torch,torch.nn as nn;from torch.utils.cpp_extension import load_inline as L
s='''
#include<torch/extension.h>
__global__ void
k (const float*x,float*y,int n)
{int i=blockIdx.x*blockDim.x+
threadIdx.x;if(i<n)y[i]=x[i]<0?0:x[i];}
torch::Tensor r(torch::Tensor x){x=x.contiguous();auto y=torch::empty_like(x);int n=x.numel();
k
<<<
(n+63)/64 , 64
>>>
(x.data_ptr<float>(),y.data_ptr<float>(),n);return y;}
'''
m=L(name='r',cpp_sources='torch::Tensor r(torch::Tensor x);',cuda_sources=s,functions=['r'])
class ModelNew(nn.Module):
	def __init__( self , *a , **k ) : super( ).__init__( ) ; self.m=m
	def forward( self , x ) : return self . m . r( x )
